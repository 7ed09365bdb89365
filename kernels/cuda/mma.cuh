// int8 matrix products of a warp on tensor cores: c += a * b, [16, K] times [K, 8] into [16, 8]
// int32.
//
// With g = lane / 4 and t = lane % 4, a lane holds of a: rows g and g + 8, columns 4t to 4t + 3 of
// each 16 (a word each, rows first); of b: the same columns as rows, column g; of c: rows g and
// g + 8, columns 2t and 2t + 1 ("Matrix Fragments for mma", PTX ISA).
#pragma once

#include "kernels/cuda/launch.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
// Turing has the product of eight rows and 16 columns; the fragments are laid out alike.
__device__ inline void Mma8x16(int& c0, int& c1, uint32_t a, uint32_t b) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+r"(c0), "+r"(c1)
      : "r"(a), "r"(b));
}
#endif

__device__ inline void Mma16(int (&c)[4], const uint32_t (&a)[2], uint32_t b) {
#if defined(BATON_CUDA_EMULATED)
  cuda_emulation::MultiplyFragments<16>(c, a, &b);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  Mma8x16(c[0], c[1], a[0], b);
  Mma8x16(c[2], c[3], a[1], b);
#else
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}
__device__ inline void Mma32(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if defined(BATON_CUDA_EMULATED)
  cuda_emulation::MultiplyFragments<32>(c, a, b);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  Mma16(c, {a[0], a[1]}, b[0]);
  Mma16(c, {a[2], a[3]}, b[1]);
#else
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
