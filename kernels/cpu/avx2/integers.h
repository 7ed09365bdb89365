// Pieces of AVX2 that the integer kernels share.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline __m256i Load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline __m128i Load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline __m256i Broadcast16(const void* p) { return _mm256_broadcastsi128_si256(Load16(p)); }
inline __m256i Broadcast4(const void* p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm256_set1_epi32(v);
}
inline __m256i Join(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
// The 16 bytes at `low` and at `high`.
inline __m256i LoadPair(const void* low, const void* high) {
  return Join(Load16(low), Load16(high));
}
inline __m256i LowNibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
inline __m256i HighNibbles(__m256i v) { return LowNibbles(_mm256_srli_epi16(v, 4)); }

// Adjacent 16-bit pairs of `words`, summed into 32 bits.
inline __m256i PairSums(__m256i words) { return _mm256_madd_epi16(words, _mm256_set1_epi16(1)); }
// Signed bytes times activations in [-127, 127], four products a sum.
inline __m256i SignedDot(__m256i weights, __m256i activations) {
  const __m256i products =
      _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(activations, weights));
  return PairSums(products);
}

// The 16 values that a nibble stands for, in each half.
inline __m256i Iq4Book() {
  return _mm256_broadcastsi128_si256(
      _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113));
}
inline __m256i Fp4Book() {
  return _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
}

// Lane i of the result is the sum of the lanes of v[i].
inline __m256i SumEach(const __m256i v[8]) {
  const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
  const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                          _mm256_permute2x128_si256(a, b, 0x31));
}
// The same where v[i] holds four sums of row i below four sums of row i + 4.
inline __m256i SumEachPair(const __m256i v[4]) {
  return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
