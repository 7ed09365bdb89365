// How AVX-512 with VNNI multiplies a panel: dpbusd takes unsigned bytes whole and adds four
// products into 32 bits. A register holds all 16 rows of the panel.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/panel_layout.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class Block>
struct PanelTraits {
  static constexpr bool kSuper = kValues<Block> == 256;
  static constexpr int kOffset = IntegerRange<Block>::kOffset;
  static constexpr bool kFlipSign = false;
  static constexpr int kTileRows = 8;
};

// `words` words of four bytes from each of 16 rows, `stride` bytes apart: word by word, row by row.
inline void TransposeWords(const uint8_t* rows, int64_t stride, int words, uint8_t* out) {
  for (int w = 0; w < words; w += 4) {
    __m512i z[4];
    for (int i = 0; i < 4; ++i) {  // rows i, i + 4, i + 8, i + 12
      const auto load = [&](int row) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + row * stride + 4 * w));
      };
      z[i] = _mm512_castsi128_si512(load(i));
      z[i] = _mm512_inserti32x4(z[i], load(i + 4), 1);
      z[i] = _mm512_inserti32x4(z[i], load(i + 8), 2);
      z[i] = _mm512_inserti32x4(z[i], load(i + 12), 3);
    }
    const __m512i l0 = _mm512_unpacklo_epi32(z[0], z[1]), l1 = _mm512_unpacklo_epi32(z[2], z[3]);
    const __m512i h0 = _mm512_unpackhi_epi32(z[0], z[1]), h1 = _mm512_unpackhi_epi32(z[2], z[3]);
    uint8_t* to = out + w * 4 * kPanelRows;
    _mm512_store_si512(to, _mm512_unpacklo_epi64(l0, l1));
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi64(l0, l1));
    _mm512_store_si512(to + 128, _mm512_unpacklo_epi64(h0, h1));
    _mm512_store_si512(to + 192, _mm512_unpackhi_epi64(h0, h1));
  }
}

inline __m512i BroadcastWord(const void* p) {
  int32_t v;
  memcpy(&v, p, 4);
  return _mm512_set1_epi32(v);
}

// Sums of `Steps` steps of weights times activations, added to `sums`.
template <int Rows, int Steps>
inline void AddSteps(const uint8_t (*w)[kPanelRows][4], const int8_t* const* a, int k,
                     __m512i (&sums)[Rows]) {
#pragma GCC unroll 8
  for (int s = 0; s < Steps; ++s) {
    const __m512i weights = _mm512_load_si512(w[s]);
#pragma GCC unroll 8
    for (int t = 0; t < Rows; ++t) {
      sums[t] = _mm512_dpbusd_epi32(sums[t], weights, BroadcastWord(a[t] + k + 4 * s));
    }
  }
}

// acc += scale * term, for the 16 rows of a panel.
inline void AddTerm(float scale, __m512 term, float* acc) {
  _mm512_store_ps(acc, _mm512_fmadd_ps(_mm512_set1_ps(scale), term, _mm512_load_ps(acc)));
}
// What block b of a panel adds: `sums` of weights times activations, and the sum of the activations
// where the type has a minimum.
template <class Block>
inline void AddBlock32Term(const Panel& p, int b, __m512i sums, int activation_sum, float scale,
                           float* acc) {
  const __m512 d = _mm512_load_ps(p.d[b]), s = _mm512_cvtepi32_ps(sums);
  if constexpr (HasMin<Block>) {
    const __m512 sum = _mm512_set1_ps(static_cast<float>(activation_sum));
    AddTerm(scale, _mm512_fmadd_ps(d, s, _mm512_mul_ps(_mm512_load_ps(p.dmin[b]), sum)), acc);
  } else {
    AddTerm(scale, _mm512_mul_ps(d, s), acc);
  }
}
// The same of a super-block; `mins` where the type has minimums.
template <class Block>
inline void AddSuperBlockTerm(const Panel& p, __m512i sums, __m512i mins, float scale, float* acc) {
  const __m512 d = _mm512_load_ps(p.d[0]), s = _mm512_cvtepi32_ps(sums);
  if constexpr (HasMin<Block>) {
    const __m512 z = _mm512_mul_ps(_mm512_load_ps(p.dmin[0]), _mm512_cvtepi32_ps(mins));
    AddTerm(scale, _mm512_fmsub_ps(d, s, z), acc);
  } else {
    AddTerm(scale, _mm512_mul_ps(d, s), acc);
  }
}
// sum over sub-blocks of p.mins * sums of activations
inline __m512i MinSums(const Panel& p, const int16_t* sums) {
  __m512i mins = _mm512_setzero_si512();
  for (int i = 0; i < 8; ++i) {
    mins = _mm512_dpwssd_epi32(mins, _mm512_load_si512(p.mins[i]), BroadcastWord(sums + 2 * i));
  }
  return mins;
}

template <class Block, int Rows>
inline void AddBlocks32(const Panel& p, int num_blocks, const TileRows<Rows>& tile) {
  constexpr int kOffset = PanelTraits<Block>::kOffset;
  for (int b = 0; b < num_blocks; ++b) {
    int activation_sums[Rows];
    __m512i sums[Rows];
    for (int t = 0; t < Rows; ++t) {
      activation_sums[t] = tile.sums[t][2 * b] + tile.sums[t][2 * b + 1];
      sums[t] = _mm512_set1_epi32(-kOffset * activation_sums[t]);
    }
    AddSteps<Rows, 8>(p.values + b * 8, tile.values, b * 32, sums);
    for (int t = 0; t < Rows; ++t)
      AddBlock32Term<Block>(p, b, sums[t], activation_sums[t], tile.scales[t][b], tile.acc[t]);
  }
}

template <class Block, int Rows>
inline void AddSuperBlock(const Panel& p, const TileRows<Rows>& tile) {
  constexpr int kSub = kSubBlock<Block>;
  __m512i sums[Rows];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (int j = 0; j < kChunk / kSub; ++j) {
    __m512i dots[Rows];
    for (__m512i& dot : dots) dot = _mm512_setzero_si512();
    AddSteps<Rows, kSub / 4>(p.values + j * kSub / 4, tile.values, j * kSub, dots);
    const __m512i doubled = _mm512_load_si512(p.scales[j * kSub / 16]);
    const __m512i scale = _mm512_srai_epi32(doubled, 16);
    for (int t = 0; t < Rows; ++t)
      sums[t] = _mm512_add_epi32(sums[t], _mm512_mullo_epi32(dots[t], scale));
  }
  for (int t = 0; t < Rows; ++t) {
    const __m512i mins = MinSums(p, tile.sums[t]);
    const __m512i total = HasMin<Block> ? sums[t] : _mm512_add_epi32(sums[t], mins);
    AddSuperBlockTerm<Block>(p, total, mins, tile.scales[t][0], tile.acc[t]);
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
