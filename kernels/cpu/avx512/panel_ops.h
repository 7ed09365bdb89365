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

template <class Block, int Rows>
inline void AddBlocks32(const Panel& p, int num_blocks, const TileRows<Rows>& tile) {
  constexpr int kOffset = PanelTraits<Block>::kOffset;
  for (int b = 0; b < num_blocks; ++b) {
    __m512i sums[Rows];
    for (int t = 0; t < Rows; ++t) {
      sums[t] = _mm512_set1_epi32(-kOffset * (tile.sums[t][2 * b] + tile.sums[t][2 * b + 1]));
    }
    AddSteps<Rows, 8>(p.values + b * 8, tile.values, b * 32, sums);
    const __m512 d = _mm512_load_ps(p.d[b]);
    for (int t = 0; t < Rows; ++t) {
      const __m512 s = _mm512_cvtepi32_ps(sums[t]);
      __m512 term;
      if constexpr (HasMin<Block>) {
        const __m512 sum =
            _mm512_set1_ps(static_cast<float>(tile.sums[t][2 * b] + tile.sums[t][2 * b + 1]));
        term = _mm512_fmadd_ps(d, s, _mm512_mul_ps(_mm512_load_ps(p.dmin[b]), sum));
      } else {
        term = _mm512_mul_ps(d, s);
      }
      const __m512 acc = _mm512_load_ps(tile.acc[t]);
      _mm512_store_ps(tile.acc[t], _mm512_fmadd_ps(_mm512_set1_ps(tile.scales[t][b]), term, acc));
    }
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
  const __m512 d = _mm512_load_ps(p.d[0]);
  for (int t = 0; t < Rows; ++t) {
    __m512i mins = _mm512_setzero_si512();
    for (int i = 0; i < 8; ++i) {
      const __m512i products =
          _mm512_madd_epi16(_mm512_load_si512(p.mins[i]), BroadcastWord(tile.sums[t] + 2 * i));
      mins = _mm512_add_epi32(mins, products);
    }
    __m512 term;
    if constexpr (HasMin<Block>) {
      const __m512 z = _mm512_mul_ps(_mm512_load_ps(p.dmin[0]), _mm512_cvtepi32_ps(mins));
      term = _mm512_fmsub_ps(d, _mm512_cvtepi32_ps(sums[t]), z);
    } else {
      term = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_add_epi32(sums[t], mins)));
    }
    const __m512 acc = _mm512_load_ps(tile.acc[t]);
    _mm512_store_ps(tile.acc[t], _mm512_fmadd_ps(_mm512_set1_ps(tile.scales[t][0]), term, acc));
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
