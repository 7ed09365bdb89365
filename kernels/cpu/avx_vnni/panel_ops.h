// How AVX-VNNI multiplies a panel: as AVX-512 does, in registers of half its rows.
#pragma once

#include "kernels/cpu/avx2/panel_terms.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class Block>
struct PanelTraits {
  static constexpr bool kSuper = kValues<Block> == 256;
  static constexpr int kOffset = IntegerRange<Block>::kOffset;
  static constexpr bool kFlipSign = false;
  // As many sums as 16 registers hold; those of a super-block lie beside its sub-block's.
  static constexpr int kTileRows = kSuper ? 4 : 6;
};

// Sums of `Steps` steps of weights times activations, added to `sums`.
template <int Rows, int Steps>
inline void AddSteps(const uint8_t (*w)[kPanelRows][4], const int8_t* const* a, int k,
                     __m256i (&sums)[Rows][2]) {
#pragma GCC unroll 8
  for (int s = 0; s < Steps; ++s) {
    const __m256i w0 = LoadRow(w[s][0]), w1 = LoadRow(w[s][8]);
#pragma GCC unroll 6
    for (int t = 0; t < Rows; ++t) {
      const __m256i x = Broadcast4(a[t] + k + 4 * s);
      sums[t][0] = _mm256_dpbusd_avx_epi32(sums[t][0], w0, x);
      sums[t][1] = _mm256_dpbusd_avx_epi32(sums[t][1], w1, x);
    }
  }
}

template <class Block, int Rows>
inline void AddBlocks32(const Panel& p, int num_blocks, const TileRows<Rows>& tile) {
  const __m256i offset = _mm256_set1_epi16(-PanelTraits<Block>::kOffset);
  for (int b = 0; b < num_blocks; ++b) {
    __m256i sums[Rows][2];
    for (int t = 0; t < Rows; ++t)
      sums[t][0] = sums[t][1] = _mm256_madd_epi16(Broadcast4(tile.sums[t] + 2 * b), offset);
    AddSteps<Rows, 8>(p.values + b * 8, tile.values, b * 32, sums);
    for (int h = 0; h < 2; ++h) {
      for (int t = 0; t < Rows; ++t)
        AddBlock32Term<Block>(p, b, h, sums[t][h], tile.sums[t], tile.scales[t][b], tile.acc[t]);
    }
  }
}

template <class Block, int Rows>
inline void AddSuperBlock(const Panel& p, const TileRows<Rows>& tile) {
  constexpr int kSub = kSubBlock<Block>;
  __m256i sums[Rows][2] = {};
  for (int j = 0; j < kChunk / kSub; ++j) {
    __m256i dots[Rows][2] = {};
    AddSteps<Rows, kSub / 4>(p.values + j * kSub / 4, tile.values, j * kSub, dots);
    for (int h = 0; h < 2; ++h) {
      const __m256i scale = _mm256_srai_epi32(LoadRow(p.scales[j * kSub / 16][h * 8]), 16);
      for (int t = 0; t < Rows; ++t)
        sums[t][h] = _mm256_add_epi32(sums[t][h], _mm256_mullo_epi32(dots[t][h], scale));
    }
  }
  for (int h = 0; h < 2; ++h) {
    for (int t = 0; t < Rows; ++t)
      AddSuperBlockTerm<Block>(p, h, sums[t][h], tile.sums[t], tile.scales[t][0], tile.acc[t]);
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
