// Code books of the IQ types.
#pragma once

#include <cstdint>

namespace baton::kernels {

#ifdef __CUDACC__
#define BATON_GRID(name, size) static __device__ const uint16_t name##Device[size]
#include "kernels/iq_grids.inc"
#undef BATON_GRID
#endif
#define BATON_GRID(name, size) inline constexpr uint16_t name[size]
#include "kernels/iq_grids.inc"
#undef BATON_GRID

// Entry `index` of a grid, on the host or on the device.
#ifdef __CUDA_ARCH__
#define BATON_GRID_ENTRY(name, index) name##Device[index]
#else
#define BATON_GRID_ENTRY(name, index) name[index]
#endif

}  // namespace baton::kernels
