// Eight floats in an AVX register. Each lane does what kernels/cpu/scalar/lanes.h says.
#pragma once

#include <immintrin.h>

#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

struct Lanes {
  static constexpr int kSize = 8;
  __m256 v;

  Lanes() = default;
  explicit Lanes(float f) : v(_mm256_set1_ps(f)) {}
  explicit Lanes(__m256 m) : v(m) {}

  static Lanes Load(const float* p) { return Lanes(_mm256_loadu_ps(p)); }
  static __m256i FirstMask(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Lanes LoadFirst(const float* p, int n) {
    return Lanes(_mm256_maskload_ps(p, FirstMask(n)));
  }
  static Lanes LoadHalves(const uint16_t* p) {
    return Lanes(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static Lanes LoadBfloat16s(const uint16_t* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return Lanes(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)));
  }
  static Lanes LoadInt8s(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return Lanes(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
  }
  void Store(float* p) const { _mm256_storeu_ps(p, v); }
  void StoreFirst(float* p, int n) const { _mm256_maskstore_ps(p, FirstMask(n), v); }
  float Sum() const {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  float Max() const {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

inline Lanes operator+(Lanes a, Lanes b) { return Lanes(_mm256_add_ps(a.v, b.v)); }
inline Lanes operator-(Lanes a, Lanes b) { return Lanes(_mm256_sub_ps(a.v, b.v)); }
inline Lanes operator*(Lanes a, Lanes b) { return Lanes(_mm256_mul_ps(a.v, b.v)); }
inline Lanes operator/(Lanes a, Lanes b) { return Lanes(_mm256_div_ps(a.v, b.v)); }
inline Lanes Fma(Lanes a, Lanes b, Lanes c) { return Lanes(_mm256_fmadd_ps(a.v, b.v, c.v)); }
inline Lanes MinOf(Lanes a, Lanes b) { return Lanes(_mm256_min_ps(a.v, b.v)); }
inline Lanes MaxOf(Lanes a, Lanes b) { return Lanes(_mm256_max_ps(a.v, b.v)); }
inline Lanes AbsOf(Lanes a) { return Lanes(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)); }
inline Lanes WithSignOf(Lanes magnitude, Lanes sign) {
  const __m256 mask = _mm256_set1_ps(-0.0f);
  return Lanes(_mm256_or_ps(_mm256_andnot_ps(mask, magnitude.v), _mm256_and_ps(mask, sign.v)));
}
inline Lanes Less(Lanes a, Lanes b) { return Lanes(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)); }
inline Lanes Select(Lanes mask, Lanes a, Lanes b) {
  return Lanes(_mm256_blendv_ps(b.v, a.v, mask.v));
}
template <int Shift>
inline Lanes AddAndShiftBits(Lanes a, uint32_t addend) {
  const __m256i sum =
      _mm256_add_epi32(_mm256_castps_si256(a.v), _mm256_set1_epi32(static_cast<int>(addend)));
  return Lanes(_mm256_castsi256_ps(_mm256_slli_epi32(sum, Shift)));
}
inline void StoreInt8(Lanes a, int8_t* p) {
  const __m256i ints = _mm256_cvtps_epi32(a.v);
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
