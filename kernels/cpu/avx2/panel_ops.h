// How AVX2 multiplies a panel: unsigned weights by signed activations into pairs of 16-bit sums, as
// many of them as cannot overflow, then into 32 bits, where sub-block scales multiply too. Weights
// of eight bits stay signed: their magnitudes multiply activations that took over their signs, and
// each pair goes into 32 bits by itself.
#pragma once

#include "kernels/cpu/avx2/panel_terms.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// A product of an unsigned byte and an activation is at most largest * 127 and a pair of them goes
// into 16 bits: how many pairs may be added up there (a power of two, at most 8); 0: not even one.
constexpr int PairsIn16Bits(int largest) {
  int pairs = 8;
  while (pairs > 0 && pairs * 2 * largest * 127 > 32767) pairs /= 2;
  return pairs;
}

template <class Block>
struct PanelTraits {
  static constexpr bool kSuper = kValues<Block> == 256;
  static constexpr int kPairs = PairsIn16Bits(IntegerRange<Block>::kLargest);
  static constexpr bool kFlipSign = kPairs == 0;  // bytes are signed: 128 less
  static constexpr int kOffset = IntegerRange<Block>::kOffset - (kFlipSign ? 128 : 0);
  static constexpr int kTileRows = 4;
};

// Keeps a sum where the code says it: GCC 12 else multiplies everything first, and spills it all.
inline void Pin(__m256i& sum) { asm volatile("" : "+x"(sum)); }

// AddSteps for signed weights. A pair is at most 2 * 128 * 127, which fits 16 bits.
template <int Rows, int Steps>
inline __attribute__((always_inline)) void AddSignedSteps(const uint8_t (*w)[kPanelRows][4],
                                                          const int8_t* const* a, int k,
                                                          const __m256i scale[2],
                                                          __m256i (&sums)[Rows][2]) {
#pragma GCC unroll 8
  for (int s = 0; s < Steps; ++s) {
    const __m256i w0 = LoadRow(w[s][0]), w1 = LoadRow(w[s][8]);
    const __m256i magnitude0 = _mm256_abs_epi8(w0), magnitude1 = _mm256_abs_epi8(w1);
#pragma GCC unroll 4
    for (int t = 0; t < Rows; ++t) {
      const __m256i x = Broadcast4(a[t] + k + 4 * s);
      const __m256i p0 = _mm256_maddubs_epi16(magnitude0, _mm256_sign_epi8(x, w0));
      const __m256i p1 = _mm256_maddubs_epi16(magnitude1, _mm256_sign_epi8(x, w1));
      sums[t][0] = _mm256_add_epi32(sums[t][0], _mm256_madd_epi16(p0, scale[0]));
      sums[t][1] = _mm256_add_epi32(sums[t][1], _mm256_madd_epi16(p1, scale[1]));
      Pin(sums[t][0]);
      Pin(sums[t][1]);
    }
  }
}

// sums[t][h] += scale[h] * (sum over `Steps` steps of weights * activations). Pairs of products
// are added up `Pairs` at a time; 0: weights are signed.
template <int Rows, int Steps, int Pairs>
inline __attribute__((always_inline)) void AddSteps(const uint8_t (*w)[kPanelRows][4],
                                                    const int8_t* const* a, int k,
                                                    const __m256i scale[2],
                                                    __m256i (&sums)[Rows][2]) {
  if constexpr (Pairs == 0) return AddSignedSteps<Rows, Steps>(w, a, k, scale, sums);
  constexpr int kRun = Pairs == 0 ? Steps : Pairs < Steps ? Pairs : Steps;
#pragma GCC unroll 8
  for (int s = 0; s < Steps; s += kRun) {
    __m256i words[Rows][2];
#pragma GCC unroll 8
    for (int i = 0; i < kRun; ++i) {
      const __m256i w0 = LoadRow(w[s + i][0]), w1 = LoadRow(w[s + i][8]);
#pragma GCC unroll 4
      for (int t = 0; t < Rows; ++t) {
        const __m256i x = Broadcast4(a[t] + k + 4 * (s + i));
        const __m256i p0 = _mm256_maddubs_epi16(w0, x), p1 = _mm256_maddubs_epi16(w1, x);
        words[t][0] = i == 0 ? p0 : _mm256_add_epi16(words[t][0], p0);
        words[t][1] = i == 0 ? p1 : _mm256_add_epi16(words[t][1], p1);
        Pin(words[t][0]);
        Pin(words[t][1]);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < Rows; ++t) {
      sums[t][0] = _mm256_add_epi32(sums[t][0], _mm256_madd_epi16(words[t][0], scale[0]));
      sums[t][1] = _mm256_add_epi32(sums[t][1], _mm256_madd_epi16(words[t][1], scale[1]));
    }
  }
}

template <class Block, int Rows>
inline void AddBlocks32(const Panel& p, int num_blocks, const TileRows<Rows>& tile) {
  using Traits = PanelTraits<Block>;
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i one[2] = {ones, ones};
  const __m256i offset = _mm256_set1_epi16(-Traits::kOffset);
  for (int b = 0; b < num_blocks; ++b) {
    __m256i sums[Rows][2];
    for (int t = 0; t < Rows; ++t) {
      sums[t][0] = sums[t][1] = Traits::kOffset != 0
                                    ? _mm256_madd_epi16(Broadcast4(tile.sums[t] + 2 * b), offset)
                                    : _mm256_setzero_si256();
    }
    AddSteps<Rows, 8, Traits::kPairs>(p.values + b * 8, tile.values, b * 32, one, sums);
    for (int h = 0; h < 2; ++h) {
      for (int t = 0; t < Rows; ++t)
        AddBlock32Term<Block>(p, b, h, sums[t][h], tile.sums[t], tile.scales[t][b], tile.acc[t]);
    }
  }
}

template <class Block, int Rows>
inline void AddSuperBlock(const Panel& p, const TileRows<Rows>& tile) {
  using Traits = PanelTraits<Block>;
  __m256i sums[Rows][2];
  for (auto& row : sums) row[0] = row[1] = _mm256_setzero_si256();
  constexpr int kSub = kSubBlock<Block>;
  for (int j = 0; j < kChunk / kSub; ++j) {
    const auto& scales = p.scales[j * kSub / 16];
    const __m256i scale[2] = {LoadRow(scales[0]), LoadRow(scales[8])};
    AddSteps<Rows, kSub / 4, Traits::kPairs>(p.values + j * kSub / 4, tile.values, j * kSub, scale,
                                             sums);
  }
  for (int h = 0; h < 2; ++h) {
    for (int t = 0; t < Rows; ++t)
      AddSuperBlockTerm<Block>(p, h, sums[t][h], tile.sums[t], tile.scales[t][0], tile.acc[t]);
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
