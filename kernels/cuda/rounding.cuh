// Rounding of rows for products (ARITHMETIC.md, "Activations"): a warp to a group of values that
// share a scale. What makes the values may do so in the same kernel.
#pragma once

#include "kernels/cuda/parts.cuh"
#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <int Group>
struct RoundedGroup {
  float scale;
  float q[Group / 32];  // of values 32 i + lane
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

// A warp's work: group `at` of a row of `cols` values, each made by one call of value(k).
template <int Group, class Value>
__device__ inline void RoundValues(const CudaRounding& to, int64_t row, int32_t cols, int32_t at,
                                   const Value& value) {
  const int32_t first = at * Group + static_cast<int32_t>(threadIdx.x) % 32;
  float x[Group / 32];
#pragma unroll
  for (int i = 0; i < Group / 32; ++i) x[i] = value(first + i * 32);
  const RoundedGroup<Group> rounded = RoundGroup<Group>(x);
  const int64_t to_row = to.fine ? 2 * row : row;
  StoreGroup(rounded, to_row, cols, at, to.rows);
  if (!to.fine) return;
#pragma unroll
  for (int i = 0; i < Group / 32; ++i) x[i] = Fma(-rounded.scale, rounded.q[i], x[i]);
  StoreGroup(RoundGroup<Group>(x), to_row + 1, cols, at, to.rows);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
