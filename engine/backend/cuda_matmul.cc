// Products of the CUDA backend, those of experts among them: activations are rounded once for the
// weights that share them.
#include <algorithm>
#include <iterator>
#include <vector>

#include "engine/backend/cuda_backend.h"
#include "kernels/cuda/device_layout.h"

namespace baton::engine {
namespace {

using kernels::ActivationFormat;
using kernels::CudaMatMulArgs;
using kernels::RoundedRows;

// Those that activations are rounded for come first: what waits may round them.
constexpr ActivationFormat kFormats[] = {ActivationFormat::kInt8By32, ActivationFormat::kInt8By256,
                                         ActivationFormat::kFloat};

// A product to be given its targets.
CudaMatMulArgs ArgsOf(const Weight& weight, Activations x, const RoundedRows& rounded) {
  return {.type = weight.type,
          .cols = static_cast<int32_t>(weight.ne[0]),
          .row_bytes = kernels::DeviceRowBytes(weight.type, weight.ne[0]),
          .targets = {},
          .num_targets = 0,
          .rows = x.rows,
          .x = x.data,
          .x_stride = x.stride,
          .rounded = rounded};
}
void AddTarget(const MatMulTarget& target, CudaMatMulArgs& args) {
  args.targets[args.num_targets++] = {.weight = static_cast<const uint8_t*>(target.weight->data),
                                      .outs = static_cast<int32_t>(target.weight->ne[1]),
                                      .bias = FloatsOf(target.bias),
                                      .out = target.out.data,
                                      .out_stride = target.out.stride};
}

// Below this many pairs of a row and an expert each pair reads its expert's weights for itself;
// from it on, the rows of an expert share them.
constexpr int32_t kSlotsWorthGrouping = 32;

}  // namespace

RoundedRows CudaBackend::Round(ActivationFormat format, Activations x, bool fine) {
  if (format == ActivationFormat::kFloat) {
    QueueWaiting();
    return {};
  }
  const int32_t group = kernels::ActivationGroup(format);
  const int64_t rows = fine ? int64_t{2} * x.rows : x.rows;
  const int64_t stride = kernels::RoundedStride(x.cols);
  const RoundedRows rounded = {
      Reserve<int8_t>(values_, static_cast<size_t>(rows * stride)),
      Reserve<float>(scales_, static_cast<size_t>(rows * (x.cols / group))),
      Reserve<int16_t>(sums_, static_cast<size_t>(rows * (x.cols / 16))), stride};
  if (!status_.ok()) return {};
  QueueRounding(x, {.format = format, .fine = fine, .rows = rounded});
  return rounded;
}

void CudaBackend::MatMul(Activations x, std::span<const MatMulTarget> targets) {
  Multiply(x, targets, false);
}
void CudaBackend::FineMatMul(Activations x, std::span<const MatMulTarget> targets) {
  Multiply(x, targets, true);
}

void CudaBackend::Multiply(Activations x, std::span<const MatMulTarget> targets, bool fine) {
  if (!ReadyToTake() || x.rows == 0) return;
  for (const ActivationFormat format : kFormats) {
    const bool two_parts = fine && format != ActivationFormat::kFloat;
    std::vector<MatMulTarget> left;
    std::ranges::copy_if(targets, std::back_inserter(left),
                         [&](const MatMulTarget& t) { return FormatOf(*t.weight) == format; });
    if (left.empty()) continue;
    const RoundedRows rounded = Round(format, x, two_parts);
    if (!status_.ok()) return;
    while (!left.empty()) {  // those of a type in one kernel
      CudaMatMulArgs args = ArgsOf(*left[0].weight, x, rounded);
      args.fine = two_parts;
      args.rows = two_parts ? 2 * x.rows : x.rows;
      std::erase_if(left, [&](const MatMulTarget& target) {
        if (target.weight->type != args.type || args.num_targets == kernels::kMostCudaTargets)
          return false;
        AddTarget(target, args);
        return true;
      });
      cuda_.matmul(args, stream_);
    }
  }
}

void CudaBackend::HeadMatMul(Activations x, const Weight& weight, Activations out) {
  if (!ReadyToTake() || x.rows == 0) return;
  const RoundedRows rounded = Round(FormatOf(weight), x, false);
  if (!status_.ok()) return;
  CudaMatMulArgs args = ArgsOf(weight, x, rounded);
  AddTarget({.weight = &weight, .out = out}, args);
  args.slices = static_cast<int32_t>(weight.ne[2]);
  args.rows = x.rows / args.slices;
  cuda_.matmul(args, stream_);
}

// ---- mixture of experts -------------------------------------------------------------------------

Routing CudaBackend::Route(const RouterParams& params, Activations logits) {
  Routing routing{
      .rows = logits.rows, .num_used = params.num_used, .experts = nullptr, .weights = nullptr};
  if (params.num_experts > kernels::kMaxCudaExperts ||
      params.num_groups > kernels::kMaxCudaExpertGroups) {
    Note(Unimplemented("{} experts in {} groups: at most {} in {}", params.num_experts,
                       params.num_groups, kernels::kMaxCudaExperts, kernels::kMaxCudaExpertGroups));
  }
  if (!Ready()) return routing;
  const size_t slots = static_cast<size_t>(logits.rows) * params.num_used;
  routing.experts = Borrow(sizeof(int32_t) * slots);
  routing.weights = Borrow(sizeof(float) * slots);
  if (!status_.ok()) return routing;
  const auto score = params.score == RouterScore::kSoftmax ? kernels::CudaRouterScore::kSoftmax
                     : params.score == RouterScore::kSigmoid
                         ? kernels::CudaRouterScore::kSigmoid
                         : kernels::CudaRouterScore::kSoftmaxOfChosen;
  cuda_.route({.score = score,
               .logits = {logits.data, logits.rows, params.num_experts, logits.stride},
               .num_used = params.num_used,
               .num_groups = params.num_groups,
               .num_used_groups = params.num_used_groups,
               .normalize = params.normalize,
               .scale = params.scale,
               .selection_bias = FloatsOf(params.selection_bias),
               .experts = static_cast<int32_t*>(routing.experts->data()),
               .weights = static_cast<float*>(routing.weights->data())},
              stream_);
  return routing;
}

void CudaBackend::ExpertMatMul(const Routing& routing, Activations x, const Weight& weight,
                               const Weight* bias, Activations out) {
  const int32_t slots = routing.rows * routing.num_used;
  if (!ReadyToTake() || slots == 0) return;
  const bool shared = x.rows == routing.rows && routing.num_used != 1;
  const RoundedRows rounded = Round(FormatOf(weight), x, false);
  if (!status_.ok()) return;
  CudaMatMulArgs args = ArgsOf(weight, x, rounded);
  AddTarget({.weight = &weight, .bias = bias, .out = out}, args);
  const int32_t slots_per_row = shared ? routing.num_used : 1;
  if (slots < kSlotsWorthGrouping) {
    ExpertMatMulBySlot(routing, slots_per_row, args);
  } else {
    args.slices = static_cast<int32_t>(weight.ne[2]);
    ExpertMatMulByExpert(routing, slots_per_row, args);
  }
}

void CudaBackend::ExpertMatMulBySlot(const Routing& routing, int32_t slots_per_row,
                                     CudaMatMulArgs args) {
  args.slices = routing.rows * routing.num_used;
  args.rows = 1;
  args.slice_weights = static_cast<const int32_t*>(routing.experts->data());
  args.slices_per_x_row = slots_per_row;
  cuda_.matmul(args, stream_);
}

void CudaBackend::ExpertMatMulByExpert(const Routing& routing, int32_t slots_per_row,
                                       CudaMatMulArgs args) {
  const int32_t slots = routing.rows * routing.num_used;
  const auto lists = Borrow(sizeof(int32_t) * (static_cast<size_t>(args.slices) + 1 + 2 * slots));
  if (lists == nullptr) return;
  auto* begins = static_cast<int32_t*>(lists->data());
  int32_t* x_rows = begins + args.slices + 1;
  int32_t* out_rows = x_rows + slots;
  cuda_.group_slots({.experts = static_cast<const int32_t*>(routing.experts->data()),
                     .slots = slots,
                     .num_experts = args.slices,
                     .slots_per_row = slots_per_row,
                     .slice_begin = begins,
                     .x_rows = x_rows,
                     .out_rows = out_rows},
                    stream_);
  args.slice_begin = begins;
  args.x_rows = x_rows;
  args.out_rows = out_rows;
  args.rows = routing.rows;  // an expert is chosen once by a row
  cuda_.matmul(args, stream_);
}

void CudaBackend::ExpertSum(const Routing& routing, Activations x, Activations out) {
  if (!Ready() || routing.weights == nullptr) return;
  cuda_.expert_sum(static_cast<const float*>(routing.weights->data()), routing.num_used,
                   MatrixOf(x), MatrixOf(out), stream_);
}

}  // namespace baton::engine
