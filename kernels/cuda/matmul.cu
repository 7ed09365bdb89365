// What all products share: rounding of activations, the way to the types' own kernels, fine sums.
#include "kernels/cuda/parts.cuh"
#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

constexpr int kRoundWarps = 8;  // of a block of threads; a warp rounds a group

template <int Group>
struct RoundedGroup {
  static constexpr int kOfLane = Group / 32;  // values 32 i + lane
  float scale;
  float q[kOfLane];
};

template <int Group>
__device__ inline RoundedGroup<Group> RoundGroup(const float (&x)[Group / 32]) {
  RoundedGroup<Group> out;
  float largest = 0;
#pragma unroll
  for (float v : x) largest = MaxOf(largest, AbsOf(v));
  for (int d = 16; d > 0; d /= 2) largest = MaxOf(largest, __shfl_xor_sync(kAllLanes, largest, d));
  out.scale = largest / 127.0f;
  const float factor = largest > 1e-30f ? 127.0f / largest : 0.0f;
#pragma unroll
  for (int i = 0; i < Group / 32; ++i) {
    const float scaled = x[i] * factor;
    out.q[i] = RoundToInteger(Less(AbsOf(scaled), 128.0f) ? scaled : 0.0f);
  }
  return out;
}

template <int Group>
__device__ inline void StoreGroup(const RoundedGroup<Group>& group, int64_t row, int32_t cols,
                                  int32_t at, const RoundedRows& to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) to.scales[row * (cols / Group) + at] = group.scale;
#pragma unroll
  for (int i = 0; i < Group / 32; ++i) {
    const int32_t k = at * Group + i * 32 + lane;
    to.values[row * to.stride + k] = static_cast<int8_t>(group.q[i]);
    float sum = group.q[i];  // whole numbers of at most 16 * 127: exact
    for (int d = 8; d > 0; d /= 2) sum += __shfl_xor_sync(kAllLanes, sum, d);
    if (lane % 16 == 0) to.sums[row * (cols / 16) + k / 16] = static_cast<int16_t>(sum);
  }
}

template <int Group>
__global__ void RoundRows(CudaRoundArgs a) {
  const int32_t groups = a.x.cols / Group;
  const int64_t item = int64_t{blockIdx.x} * kRoundWarps + threadIdx.x / 32;
  if (item >= int64_t{a.x.rows} * groups) return;
  const int64_t row = item / groups;
  const auto at = static_cast<int32_t>(item % groups);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* from = a.x.data + row * a.x.stride + at * Group;
  float x[Group / 32];
#pragma unroll
  for (int i = 0; i < Group / 32; ++i) x[i] = from[i * 32 + lane];
  const RoundedGroup<Group> rounded = RoundGroup<Group>(x);
  StoreGroup(rounded, row, a.x.cols, at, a.rounded);
  if (!a.fine) return;
#pragma unroll
  for (int i = 0; i < Group / 32; ++i) x[i] = Fma(-rounded.scale, rounded.q[i], x[i]);
  StoreGroup(RoundGroup<Group>(x), a.x.rows + row, a.x.cols, at, a.rounded);
}

void Round(const CudaRoundArgs& args, CudaStream stream) {
  const int group = ActivationGroup(args.format);
  const dim3 grid(CeilDiv(int64_t{args.x.rows} * (args.x.cols / group), kRoundWarps));
  if (group == 32) {
    BATON_LAUNCH(RoundRows<32>, grid, dim3(32 * kRoundWarps), 0, stream, args);
  } else {
    BATON_LAUNCH(RoundRows<256>, grid, dim3(32 * kRoundWarps), 0, stream, args);
  }
}

constexpr bool HasMatMul(QuantType type) {
  return TraitsOf(type).activation != ActivationFormat::kNone;
}
void MatMul(const CudaMatMulArgs& args, CudaStream stream) {
  MatMulBlocks32(args, stream) || MatMulSuperBlocks(args, stream) ||
      MatMulCodeBooks(args, stream) || MatMulFloats(args, stream);
}

}  // namespace

void FillCudaMatMul(CudaApi& api) {
  api.round = Round;
  api.has_matmul = HasMatMul;
  api.matmul = MatMul;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
