// The AVX-512 and VNNI instructions that the kernels use, in portable code, so that those kernels
// are tested on machines without them. Included before everything else (-include) where the kernels
// are compiled once more for the tests.
#pragma once

#include <immintrin.h>

#define BATON_EMULATED __attribute__((noinline, unused)) static

namespace emulated {

typedef int Ints __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(64)));
typedef signed char Bytes __attribute__((vector_size(64)));
typedef unsigned char UnsignedBytes __attribute__((vector_size(64)));
typedef short Words __attribute__((vector_size(64)));

// f(lane) for each of the 16 lanes of 32 bits.
template <class V, class F>
V Each(F f) {
  V v = {};
  for (int i = 0; i < 16; ++i) v[i] = f(i);
  return v;
}

BATON_EMULATED __m512i Load(const void* p) {
  __m512i v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
BATON_EMULATED void Store(void* p, __m512i v) { __builtin_memcpy(p, &v, sizeof(v)); }
BATON_EMULATED __m512i Set1(int x) {
  return (__m512i)Each<Ints>([&](int) { return x; });
}
BATON_EMULATED __m512 Set1(float x) {
  return Each<Floats>([&](int) { return x; });
}
BATON_EMULATED __m512i Insert(__m512i v, __m128i part, int at) {
  __builtin_memcpy(reinterpret_cast<char*>(&v) + 16 * at, &part, sizeof(part));
  return v;
}
BATON_EMULATED __m512i Widen(__m128i part) { return Insert(__m512i{}, part, 0); }
BATON_EMULATED __m512i Add(__m512i a, __m512i b) { return (__m512i)((Ints)a + (Ints)b); }
BATON_EMULATED __m512i Multiply(__m512i a, __m512i b) { return (__m512i)((Ints)a * (Ints)b); }
BATON_EMULATED __m512 Multiply(__m512 a, __m512 b) { return a * b; }
BATON_EMULATED __m512i ShiftLeft(__m512i v, int count) { return (__m512i)((Ints)v << count); }
BATON_EMULATED __m512i ShiftRight(__m512i v, int count) { return (__m512i)((Ints)v >> count); }
BATON_EMULATED __m512 Convert(__m512i v) {
  return Each<Floats>([&](int i) { return static_cast<float>(((Ints)v)[i]); });
}
BATON_EMULATED __m512 Fma(__m512 a, __m512 b, __m512 c, float sign) {
  return Each<Floats>([&](int i) { return __builtin_fmaf(a[i], b[i], sign * c[i]); });
}
// Unsigned bytes times signed ones, four products added to each sum.
BATON_EMULATED __m512i DotBytes(__m512i sums, __m512i a, __m512i b) {
  const auto u = (UnsignedBytes)a;
  const auto s = (Bytes)b;
  return (__m512i)Each<Ints>([&](int i) {
    int sum = ((Ints)sums)[i];
    for (int j = 4 * i; j < 4 * i + 4; ++j) sum += int{u[j]} * int{s[j]};
    return sum;
  });
}
BATON_EMULATED __m512i DotWords(__m512i sums, __m512i a, __m512i b) {
  const auto x = (Words)a, y = (Words)b;
  return (__m512i)Each<Ints>(
      [&](int i) { return ((Ints)sums)[i] + x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1]; });
}
// Lanes `first` and `first` + 1 of 32 bits in each quarter of a, each followed by b's.
BATON_EMULATED __m512i Interleave32(__m512i a, __m512i b, int first) {
  return (__m512i)Each<Ints>([&](int i) {
    const int from = i / 4 * 4 + first + i % 4 / 2;
    return i % 2 == 0 ? ((Ints)a)[from] : ((Ints)b)[from];
  });
}
// Half `which` (64 bits) of each quarter of a, then b's.
BATON_EMULATED __m512i Interleave64(__m512i a, __m512i b, int which) {
  return (__m512i)Each<Ints>([&](int i) {
    const int from = i / 4 * 4 + 2 * which + i % 2;
    return i % 4 < 2 ? ((Ints)a)[from] : ((Ints)b)[from];
  });
}

}  // namespace emulated

#define _mm512_load_si512(p) emulated::Load(p)
#define _mm512_load_ps(p) ((__m512)emulated::Load(p))
#define _mm512_store_si512(p, v) emulated::Store(p, v)
#define _mm512_store_ps(p, v) emulated::Store(p, (__m512i)(v))
#define _mm512_setzero_si512() emulated::Set1(0)
#define _mm512_set1_epi32(x) emulated::Set1(static_cast<int>(x))
#define _mm512_set1_ps(x) emulated::Set1(static_cast<float>(x))
#define _mm512_castsi128_si512(v) emulated::Widen(v)
#define _mm512_inserti32x4(v, part, at) emulated::Insert(v, part, at)
#define _mm512_add_epi32(a, b) emulated::Add(a, b)
#define _mm512_mullo_epi32(a, b) emulated::Multiply(a, b)
#define _mm512_mul_ps(a, b) emulated::Multiply(a, b)
#define _mm512_slli_epi32(v, count) emulated::ShiftLeft(v, count)
#define _mm512_srai_epi32(v, count) emulated::ShiftRight(v, count)
#define _mm512_cvtepi32_ps(v) emulated::Convert(v)
#define _mm512_fmadd_ps(a, b, c) emulated::Fma(a, b, c, 1.0f)
#define _mm512_fmsub_ps(a, b, c) emulated::Fma(a, b, c, -1.0f)
#define _mm512_dpbusd_epi32(sums, a, b) emulated::DotBytes(sums, a, b)
#define _mm512_dpwssd_epi32(sums, a, b) emulated::DotWords(sums, a, b)
#define _mm512_unpacklo_epi32(a, b) emulated::Interleave32(a, b, 0)
#define _mm512_unpackhi_epi32(a, b) emulated::Interleave32(a, b, 2)
#define _mm512_unpacklo_epi64(a, b) emulated::Interleave64(a, b, 0)
#define _mm512_unpackhi_epi64(a, b) emulated::Interleave64(a, b, 1)

#define FillAvx512 FillAvx512Emulated
