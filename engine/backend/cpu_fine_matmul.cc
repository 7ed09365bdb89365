// Products with activations rounded twice as finely: what rounding leaves over is rounded and
// multiplied too, as a second row, so that the weights stream once.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/backend/cpu_backend.h"

namespace baton::engine {
namespace {

using kernels::ActivationFormat;
using kernels::RoundedRows;

ActivationFormat FormatOf(const MatMulTarget& target) {
  return kernels::TraitsOf(target.weight->type).activation;
}

// rest = x - rounded(x), row by row.
void LeftOver(const float* x, int32_t cols, int32_t group, const int8_t* values,
              const float* scales, float* rest) {
  for (int32_t i = 0; i < cols; ++i) {
    rest[i] = std::fma(-scales[i / group], static_cast<float>(values[i]), x[i]);
  }
}

}  // namespace

Activations CpuBackend::WithLeftOvers(ActivationFormat format, Activations x) {
  const Activations both = {fine_rows_.Get<float>(int64_t{2} * x.rows * x.cols), 2 * x.rows, x.cols,
                            x.cols};
  const Activations rest = both.Rows(x.rows, x.rows);
  Copy(x, both.Rows(0, x.rows));
  const RoundedRows rounded = ReserveRounded(format, x.rows, x.cols);
  const int32_t group = kernels::ActivationGroup(format);
  const auto round = kernels_->round[static_cast<size_t>(format)];
  ForRows(x, [&](int32_t r) {
    const RoundedRows row = {rounded.values + r * rounded.stride,
                             rounded.scales + int64_t{r} * (x.cols / group),
                             rounded.sums + int64_t{r} * (x.cols / 16), rounded.stride};
    const float* from = x.data + r * x.stride;
    round(from, x.cols, row);
    LeftOver(from, x.cols, group, row.values, row.scales, rest.data + r * rest.stride);
  });
  return both;
}

void CpuBackend::FineMatMulOne(Activations both, const MatMulTarget& target) {
  const int32_t rows = both.rows / 2;
  const int32_t cols = target.out.cols;
  const Activations out = {fine_out_.Get<float>(int64_t{both.rows} * cols), both.rows, cols, cols};
  const MatMulTarget to_scratch = {target.weight, nullptr, out};
  MatMul(both, {&to_scratch, 1});
  Add(out.Rows(0, rows), out.Rows(rows, rows), 1.0f, target.out);
  if (target.bias != nullptr) AddBias(target.out, *target.bias);
}

void CpuBackend::FineMatMul(Activations x, std::span<const MatMulTarget> targets) {
  if (x.rows == 0) return;
  for (const ActivationFormat format :
       {ActivationFormat::kInt8By32, ActivationFormat::kInt8By256}) {
    Activations both;
    for (const MatMulTarget& target : targets) {
      if (FormatOf(target) != format) continue;
      if (both.data == nullptr) both = WithLeftOvers(format, x);
      FineMatMulOne(both, target);
    }
  }
  for (const MatMulTarget& target : targets) {
    if (FormatOf(target) == ActivationFormat::kFloat) MatMul(x, {&target, 1});
  }
}

}  // namespace baton::engine
