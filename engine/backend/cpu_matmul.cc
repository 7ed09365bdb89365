// Products of the CPU backend: activations are rounded once, then threads divide the output
// columns.
#include <cstring>

#include "engine/backend/cpu_backend.h"

namespace baton::engine {
namespace {

using kernels::ActivationFormat;
using kernels::MatMulArgs;
using kernels::RoundedRows;

RoundedRows RowOf(const RoundedRows& all, ActivationFormat format, int32_t cols, int64_t row) {
  return {all.values + row * all.stride, all.scales + row * (cols / ActivationGroup(format)),
          all.sums + row * (cols / 16), all.stride};
}

// Columns of several products laid end to end, so that threads share them evenly; cuts are whole
// panels.
int64_t Panels(const Weight& weight) {
  return (weight.ne[1] + kernels::kPanelRows - 1) / kernels::kPanelRows;
}

}  // namespace

RoundedRows CpuBackend::ReserveRounded(ActivationFormat format, int32_t rows, int32_t cols) {
  RoundedScratch& scratch = rounded_[static_cast<size_t>(format)];
  const int64_t stride = kernels::RoundedStride(cols);
  return {scratch.values.Get<int8_t>(rows * stride),
          scratch.scales.Get<float>(int64_t{rows} * (cols / ActivationGroup(format))),
          scratch.sums.Get<int16_t>(int64_t{rows} * (cols / 16)), stride};
}

template <class RowAt>
RoundedRows CpuBackend::Round(ActivationFormat format, int32_t rows, int32_t cols, const RowAt& row,
                              bool fine) {
  if (format == ActivationFormat::kFloat) return {};
  const RoundedRows rounded = ReserveRounded(format, fine ? 2 * rows : rows, cols);
  const auto round = kernels_->round[static_cast<size_t>(format)];
  ForThreadRows({nullptr, rows, cols, cols}, [&](int thread, int32_t r) {
    if (!fine) return round(row(r), cols, RowOf(rounded, format, cols, r), nullptr);
    float* left_over = thread_scratch_[thread].left_over.Get<float>(cols);
    round(row(r), cols, RowOf(rounded, format, cols, int64_t{2} * r), left_over);
    round(left_over, cols, RowOf(rounded, format, cols, int64_t{2} * r + 1), nullptr);
  });
  return rounded;
}

void CpuBackend::MatMulColumns(MatMulArgs args, const Weight& weight, int thread, int64_t begin,
                               int64_t end) {
  if (begin >= end || args.rows == 0) return;
  args.begin = static_cast<int32_t>(begin);
  args.end = static_cast<int32_t>(end);
  args.scratch = thread_scratch_[thread].matmul.Get<std::byte>(kernels::kScratchBytes);
  kernels_->matmul[static_cast<size_t>(weight.type)](args);
}

void CpuBackend::MatMul(Activations x, std::span<const MatMulTarget> targets) {
  MultiplyTargets(x, targets, false);
}
void CpuBackend::FineMatMul(Activations x, std::span<const MatMulTarget> targets) {
  MultiplyTargets(x, targets, true);
}

void CpuBackend::MultiplyTargets(Activations x, std::span<const MatMulTarget> targets, bool fine) {
  if (x.rows == 0) return;
  RoundedRows rounded[4];
  int64_t panels = 0;
  for (const MatMulTarget& target : targets) {
    const ActivationFormat format = FormatOf(*target.weight);
    RoundedRows& r = rounded[static_cast<size_t>(format)];
    if (r.values == nullptr) {
      r = Round(
          format, x.rows, x.cols, [&](int32_t row) { return x.data + row * x.stride; }, fine);
    }
    panels += Panels(*target.weight);
  }
  pool_.Run([&](int thread) {
    const Share share = ShareOf(panels, thread, pool_.size());
    int64_t first = 0;  // panel of the target
    for (const MatMulTarget& target : targets) {
      const Weight& weight = *target.weight;
      const int64_t begin = std::max(share.begin - first, int64_t{0}) * kernels::kPanelRows;
      const int64_t end = std::min((share.end - first) * kernels::kPanelRows, weight.ne[1]);
      first += Panels(weight);
      const bool two_rows = fine && FormatOf(weight) != ActivationFormat::kFloat;
      MatMulColumns({.weight = static_cast<const uint8_t*>(weight.data),
                     .weight_row_bytes = kernels::RowBytes(weight.type, weight.ne[0]),
                     .cols = x.cols,
                     .rows = two_rows ? 2 * x.rows : x.rows,
                     .fine = two_rows,
                     .x = x.data,
                     .x_stride = x.stride,
                     .rounded = rounded[static_cast<size_t>(FormatOf(weight))],
                     .bias = FloatsOf(target.bias),
                     .out = target.out.data,
                     .out_stride = target.out.stride},
                    weight, thread, begin, end);
    }
  });
}

void CpuBackend::HeadMatMul(Activations x, const Weight& weight, Activations out) {
  const auto in = static_cast<int32_t>(weight.ne[0]), out_dim = static_cast<int32_t>(weight.ne[1]);
  const auto heads = static_cast<int32_t>(weight.ne[2]);
  const int32_t rows = x.rows / heads;
  const ActivationFormat format = FormatOf(weight);
  // Head h of row r is rounded row h * rows + r.
  const RoundedRows rounded = Round(format, x.rows, in, [&](int32_t i) {
    return x.data + (int64_t{i % rows} * heads + i / rows) * x.stride;
  });
  const int64_t row_bytes = kernels::RowBytes(weight.type, in);
  pool_.Run([&](int thread) {
    const Share share = ShareOf(heads, thread, pool_.size());
    for (int64_t h = share.begin; h < share.end; ++h) {
      const bool is_rounded = format != ActivationFormat::kFloat;
      MatMulColumns({.weight = static_cast<const uint8_t*>(weight.data) + h * out_dim * row_bytes,
                     .weight_row_bytes = row_bytes,
                     .cols = in,
                     .rows = rows,
                     .x = x.data + h * x.stride,
                     .x_stride = heads * x.stride,
                     .rounded = is_rounded ? RowOf(rounded, format, in, h * rows) : rounded,
                     .out = out.data + h * out.stride,
                     .out_stride = heads * out.stride},
                    weight, thread, 0, out_dim);
    }
  });
}

// ---- mixture of experts -------------------------------------------------------------------------

void CpuBackend::ExpertMatMul(const Routing& routing, Activations x, const Weight& weight,
                              const Weight* bias, Activations out) {
  const int32_t slots = routing.rows * routing.num_used;
  if (slots == 0) return;
  const auto experts = static_cast<int32_t>(weight.ne[2]);
  const bool shared = x.rows == routing.rows && routing.num_used != 1;
  const auto* chosen = static_cast<const int32_t*>(routing.experts->data());

  // Slots in order of their expert: [experts + 1] where each begins, [slots] row of x, [slots] row
  // of out.
  expert_rows_.assign(static_cast<size_t>(experts) + 1 + 2 * slots, 0);
  int32_t* begin = expert_rows_.data();
  int32_t* x_rows = begin + experts + 1;
  int32_t* out_rows = x_rows + slots;
  for (int32_t s = 0; s < slots; ++s) ++begin[chosen[s] + 1];
  for (int32_t e = 0; e < experts; ++e) begin[e + 1] += begin[e];
  for (int32_t s = 0; s < slots; ++s) {
    const int32_t at = begin[chosen[s]]++;
    out_rows[at] = s;
    x_rows[at] = shared ? s / routing.num_used : s;
  }
  for (int32_t e = experts; e > 0; --e) begin[e] = begin[e - 1];
  begin[0] = 0;

  const ActivationFormat format = FormatOf(weight);
  const RoundedRows rounded =
      Round(format, x.rows, x.cols, [&](int32_t row) { return x.data + row * x.stride; });
  const int64_t row_bytes = kernels::RowBytes(weight.type, weight.ne[0]);
  pool_.Run([&](int thread) {
    const Share share = ShareOf(weight.ne[1], thread, pool_.size(), kernels::kPanelRows);
    for (int32_t e = 0; e < experts; ++e) {
      const float* bias_row = FloatsOf(bias);
      MatMulColumns(
          {.weight = static_cast<const uint8_t*>(weight.data) + e * weight.ne[1] * row_bytes,
           .weight_row_bytes = row_bytes,
           .cols = x.cols,
           .rows = begin[e + 1] - begin[e],
           .x_rows = x_rows + begin[e],
           .out_rows = out_rows + begin[e],
           .x = x.data,
           .x_stride = x.stride,
           .rounded = rounded,
           .bias = bias_row != nullptr ? bias_row + e * weight.ne[1] : nullptr,
           .out = out.data,
           .out_stride = out.stride},
          weight, thread, share.begin, share.end);
    }
  });
}

}  // namespace baton::engine
