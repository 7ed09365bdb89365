// AVX-VNNI's one instruction in portable code; see avx512_emulation.h.
#pragma once

#include <immintrin.h>

namespace emulated {

// Unsigned bytes times signed ones, four products added to each sum.
__attribute__((noinline, unused)) static __m256i DotBytes(__m256i sums, __m256i a, __m256i b) {
  unsigned char u[32];
  signed char s[32];
  int total[8];
  __builtin_memcpy(u, &a, 32);
  __builtin_memcpy(s, &b, 32);
  __builtin_memcpy(total, &sums, 32);
  for (int i = 0; i < 32; ++i) total[i / 4] += int{u[i]} * int{s[i]};
  __builtin_memcpy(&sums, total, 32);
  return sums;
}

}  // namespace emulated

#define _mm256_dpbusd_avx_epi32(sums, a, b) emulated::DotBytes(sums, a, b)

#define FillAvxVnni FillAvxVnniEmulated
