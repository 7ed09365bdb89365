// How kernels/cuda/ starts kernels: one spelling for nvcc and for the emulation, which brings its
// own.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

#ifndef BATON_CUDA_EMULATED
#define BATON_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<(grid), (block), (shared_bytes), static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__)
#define BATON_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char baton_dynamic_shared[]; \
  type* name = reinterpret_cast<type*>(baton_dynamic_shared)
#endif

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr unsigned kAllLanes = 0xffffffffu;

constexpr unsigned CeilDiv(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

// Eight neighbouring lanes hold s0 to s7: all get ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 +
// s7)).
__device__ inline float SumOfEight(float s) {
  s += __shfl_xor_sync(kAllLanes, s, 4);
  s += __shfl_xor_sync(kAllLanes, s, 2);
  return s + __shfl_xor_sync(kAllLanes, s, 1);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
