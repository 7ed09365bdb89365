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
constexpr int64_t kPanelsAtATime = 4;
constexpr int64_t kColumnsAtATime = kPanelsAtATime * kernels::kPanelRows;

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

CpuBackend::Input CpuBackend::RoundFor(Activations x, std::span<const MatMulTarget> targets,
                                       bool fine) {
  Input input{.x = x, .fine = fine, .rounded = {}};
  for (const MatMulTarget& target : targets) {
    const ActivationFormat format = FormatOf(*target.weight);
    RoundedRows& rounded = input.rounded[static_cast<size_t>(format)];
    if (rounded.values != nullptr) continue;
    rounded = Round(
        format, x.rows, x.cols, [&](int32_t row) { return x.data + row * x.stride; }, fine);
  }
  return input;
}

MatMulArgs CpuBackend::ArgsOf(const Input& input, const MatMulTarget& target) {
  const Weight& weight = *target.weight;
  const bool two_rows = input.fine && FormatOf(weight) != ActivationFormat::kFloat;
  return {.weight = static_cast<const uint8_t*>(weight.data),
          .weight_row_bytes = kernels::RowBytes(weight.type, weight.ne[0]),
          .cols = input.x.cols,
          .rows = two_rows ? 2 * input.x.rows : input.x.rows,
          .fine = two_rows,
          .x = input.x.data,
          .x_stride = input.x.stride,
          .rounded = input.rounded[static_cast<size_t>(FormatOf(weight))],
          .bias = FloatsOf(target.bias),
          .out = target.out.data,
          .out_stride = target.out.stride};
}

void CpuBackend::MultiplyTargets(Activations x, std::span<const MatMulTarget> targets, bool fine) {
  const Input input = RoundFor(x, targets, fine);
  int64_t panels = 0;
  for (const MatMulTarget& target : targets) panels += Panels(*target.weight);
  pool_.RunShares(panels, kPanelsAtATime, [&](int thread, int64_t from, int64_t to) {
    int64_t first = 0;  // panel of the target
    for (const MatMulTarget& target : targets) {
      const Weight& weight = *target.weight;
      const int64_t begin = std::max(from - first, int64_t{0}) * kernels::kPanelRows;
      const int64_t end = std::min((to - first) * kernels::kPanelRows, weight.ne[1]);
      first += Panels(weight);
      MatMulColumns(ArgsOf(input, target), weight, thread, begin, end);
    }
  });
}

template <class Multiply>
void CpuBackend::ActivateProducts(const ActivationParams& params, const MatMulTarget* gate,
                                  const MatMulTarget& up, const Multiply& multiply) {
  if (up.out.rows == 0) return;
  // Columns at a time: so few values that they stay in the cache until their activation.
  constexpr int64_t kValues = 32 << 10, kFewestColumns = 4 * kernels::kPanelRows;
  const int64_t step =
      std::max(kFewestColumns, kValues / up.out.rows / kernels::kPanelRows * kernels::kPanelRows);
  pool_.RunShares(up.out.cols, kColumnsAtATime, [&](int thread, int64_t from, int64_t to) {
    for (int64_t begin = from; begin < to; begin += step) {
      const int64_t end = std::min(begin + step, to);
      if (gate != nullptr) multiply(*gate, thread, begin, end);
      multiply(up, thread, begin, end);
      ActivateColumns(params, gate, up, begin, end);
    }
  });
}

void CpuBackend::ActivatedMatMul(const ActivationParams& params, Activations x,
                                 const MatMulTarget* gate, const MatMulTarget& up) {
  const MatMulTarget targets[] = {up, gate != nullptr ? *gate : up};
  const Input input = RoundFor(x, targets);
  ActivateProducts(params, gate, up,
                   [&](const MatMulTarget& target, int thread, int64_t begin, int64_t end) {
                     MatMulColumns(ArgsOf(input, target), *target.weight, thread, begin, end);
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

CpuBackend::ExpertSlots CpuBackend::SortByExpert(const Routing& routing, Activations x,
                                                 int32_t experts) {
  const int32_t slots = routing.rows * routing.num_used;
  const bool shared = x.rows == routing.rows && routing.num_used != 1;
  const auto* chosen = static_cast<const int32_t*>(routing.experts->data());
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
  return {experts, begin, x_rows, out_rows};
}

void CpuBackend::MultiplyExpertColumns(const Input& input, const ExpertSlots& slots,
                                       const MatMulTarget& target, int thread, int64_t begin,
                                       int64_t end) {
  const Weight& weight = *target.weight;
  MatMulArgs args = ArgsOf(input, target);
  for (int32_t e = 0; e < slots.experts; ++e) {
    args.rows = slots.begin[e + 1] - slots.begin[e];
    args.x_rows = slots.x_rows + slots.begin[e];
    args.out_rows = slots.out_rows + slots.begin[e];
    MatMulColumns(args, weight, thread, begin, end);
    args.weight += weight.ne[1] * args.weight_row_bytes;
    if (args.bias != nullptr) args.bias += weight.ne[1];
  }
}

void CpuBackend::ExpertMatMul(const Routing& routing, Activations x, const Weight& weight,
                              const Weight* bias, Activations out) {
  if (routing.rows == 0) return;
  const MatMulTarget target = {&weight, bias, out};
  const ExpertSlots slots = SortByExpert(routing, x, static_cast<int32_t>(weight.ne[2]));
  const Input input = RoundFor(x, {&target, 1});
  pool_.RunShares(weight.ne[1], kColumnsAtATime, [&](int thread, int64_t begin, int64_t end) {
    MultiplyExpertColumns(input, slots, target, thread, begin, end);
  });
}

void CpuBackend::ActivatedExpertMatMul(const ActivationParams& params, const Routing& routing,
                                       Activations x, const MatMulTarget& gate,
                                       const MatMulTarget& up) {
  if (routing.rows == 0) return;
  const MatMulTarget targets[] = {gate, up};
  const ExpertSlots slots = SortByExpert(routing, x, static_cast<int32_t>(up.weight->ne[2]));
  const Input input = RoundFor(x, targets);
  ActivateProducts(params, &gate, up,
                   [&](const MatMulTarget& target, int thread, int64_t begin, int64_t end) {
                     MultiplyExpertColumns(input, slots, target, thread, begin, end);
                   });
}

}  // namespace baton::engine
