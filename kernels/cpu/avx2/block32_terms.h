// One block of 32 values in each of eight weight rows, times one activation row.
#pragma once

#include "kernels/cpu/avx2/row_matmul.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// Both halves of a block of 32 for a pair of rows: values 0 to 15 of row i below those of row i +
// 4, then 16 to 31.
struct PairValues {
  __m256i low, high;
};
template <class Block>
inline PairValues NibblesOfPair(const Block& a, const Block& b) {
  const __m256i qs = LoadPair(a.qs, b.qs);
  return {LowNibbles(qs), HighNibbles(qs)};
}
// Adds bit i of qh, as 16, to value i.
template <class Block>
inline PairValues WithFifthBits(const Block& a, const Block& b) {
  const PairValues v = NibblesOfPair(a, b);
  const auto word = [](const Block& block) {
    return _mm_cvtsi32_si128(static_cast<int>(Load4(block.qh)));
  };
  const __m256i qh = Join(word(a), word(b));
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const auto fifth = [&](__m256i bytes) {
    const __m256i spread = _mm256_shuffle_epi8(qh, bytes);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit),
                            _mm256_set1_epi8(16));
  };
  const __m256i low = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
  const __m256i high = _mm256_add_epi8(low, _mm256_set1_epi8(2));
  return {_mm256_or_si256(v.low, fifth(low)), _mm256_or_si256(v.high, fifth(high))};
}

// Sums of unsigned values times activations. Four products of at most 15 * 127 each, then eight,
// fit 16 bits.
template <class Block>
inline __m256i NibbleSums(BlockRows<Block> w, const int8_t* x) {
  const __m256i x0 = Broadcast16(x), x1 = Broadcast16(x + 16);
  __m256i words[4];
  for (int i = 0; i < 4; ++i) {
    const PairValues v = NibblesOfPair(*w[i], *w[i + 4]);
    words[i] = _mm256_add_epi16(_mm256_maddubs_epi16(v.low, x0), _mm256_maddubs_epi16(v.high, x1));
  }
  const __m256i a = _mm256_hadd_epi16(words[0], words[1]),
                b = _mm256_hadd_epi16(words[2], words[3]);
  return PairSums(_mm256_hadd_epi16(a, b));
}
template <class Block>
inline __m256i FiveBitSums(BlockRows<Block> w, const int8_t* x) {
  const __m256i x0 = Broadcast16(x), x1 = Broadcast16(x + 16);
  __m256i sums[4];
  for (int i = 0; i < 4; ++i) {
    const PairValues v = WithFifthBits(*w[i], *w[i + 4]);
    sums[i] = PairSums(
        _mm256_add_epi16(_mm256_maddubs_epi16(v.low, x0), _mm256_maddubs_epi16(v.high, x1)));
  }
  return SumEachPair(sums);
}
// Nibbles that stand for signed bytes.
template <class Block>
inline __m256i CodeBookSums(BlockRows<Block> w, const int8_t* x, __m256i book) {
  const __m256i x0 = Broadcast16(x), x1 = Broadcast16(x + 16);
  __m256i sums[4];
  for (int i = 0; i < 4; ++i) {
    const PairValues v = NibblesOfPair(*w[i], *w[i + 4]);
    sums[i] = _mm256_add_epi32(SignedDot(_mm256_shuffle_epi8(book, v.low), x0),
                               SignedDot(_mm256_shuffle_epi8(book, v.high), x1));
  }
  return SumEachPair(sums);
}

// sum of the block's activations, times `factor`, in every lane
inline __m256i ActivationSum(const BlockActivations& x, int factor) {
  return _mm256_madd_epi16(Broadcast4(x.sums), _mm256_set1_epi16(static_cast<int16_t>(factor)));
}
template <class Block>
inline __m256 ScaledSums(BlockRows<Block> w, __m256i sums) {
  return _mm256_mul_ps(LoadScales<Block>(w), _mm256_cvtepi32_ps(sums));
}
template <class Block>
inline __m256 ScaledSumsWithMin(BlockRows<Block> w, __m256i sums, const BlockActivations& x) {
  const __m256 min = LoadHalves<Block>(w, [](const Block& b) { return b.m; });
  const __m256 mins = _mm256_mul_ps(min, _mm256_cvtepi32_ps(ActivationSum(x, 1)));
  return _mm256_fmadd_ps(LoadScales<Block>(w), _mm256_cvtepi32_ps(sums), mins);
}

template <>
struct Terms<BlockQ4_0> {
  static __m256 Of(BlockRows<BlockQ4_0> w, const BlockActivations& x) {
    return ScaledSums<BlockQ4_0>(
        w, _mm256_sub_epi32(NibbleSums<BlockQ4_0>(w, x.values), ActivationSum(x, 8)));
  }
};
template <>
struct Terms<BlockQ4_1> {
  static __m256 Of(BlockRows<BlockQ4_1> w, const BlockActivations& x) {
    return ScaledSumsWithMin<BlockQ4_1>(w, NibbleSums<BlockQ4_1>(w, x.values), x);
  }
};
template <>
struct Terms<BlockQ5_0> {
  static __m256 Of(BlockRows<BlockQ5_0> w, const BlockActivations& x) {
    return ScaledSums<BlockQ5_0>(
        w, _mm256_sub_epi32(FiveBitSums<BlockQ5_0>(w, x.values), ActivationSum(x, 16)));
  }
};
template <>
struct Terms<BlockQ5_1> {
  static __m256 Of(BlockRows<BlockQ5_1> w, const BlockActivations& x) {
    return ScaledSumsWithMin<BlockQ5_1>(w, FiveBitSums<BlockQ5_1>(w, x.values), x);
  }
};
template <>
struct Terms<BlockQ8_0> {
  static __m256 Of(BlockRows<BlockQ8_0> w, const BlockActivations& x) {
    const __m256i values = Load32(x.values);
    __m256i sums[kAbreast];
    for (int i = 0; i < kAbreast; ++i) sums[i] = SignedDot(Load32(w[i]->qs), values);
    return ScaledSums<BlockQ8_0>(w, SumEach(sums));
  }
};
template <>
struct Terms<BlockIQ4_NL> {
  static __m256 Of(BlockRows<BlockIQ4_NL> w, const BlockActivations& x) {
    return ScaledSums<BlockIQ4_NL>(w, CodeBookSums<BlockIQ4_NL>(w, x.values, Iq4Book()));
  }
};
template <>
struct Terms<BlockMXFP4> {
  static __m256 Of(BlockRows<BlockMXFP4> w, const BlockActivations& x) {
    const __m256i sums = CodeBookSums<BlockMXFP4>(w, x.values, Fp4Book());
    const auto d = [&](int i) { return Scale(*w[i]); };
    const __m256 scales = _mm256_setr_ps(d(0), d(1), d(2), d(3), d(4), d(5), d(6), d(7));
    return _mm256_mul_ps(scales, _mm256_cvtepi32_ps(sums));
  }
};

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
