// One super-block of 256 values in each of eight weight rows, times some activation rows. Sub-block
// scales multiply sums of 16-bit pairs, so that a row's super-block adds up in one register of
// 32-bit sums.
#pragma once

#include "kernels/cpu/avx2/row_matmul.h"
#include "kernels/cpu/expand.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// The 8 scales and 8 mins of Q4_K and Q5_K as 16-bit numbers.
struct KScales {
  __m128i scales, mins;
};
inline KScales UnpackKScales(const uint8_t* s) {
  const auto words = [](uint64_t bytes) {
    return _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
  };
  return {words(KScaleBytes(s)), words(KMinBytes(s))};
}
// Each of 8 numbers twice, so that a broadcast of 4 bytes puts it into every 16-bit lane.
struct alignas(32) DoubledScales {
  int16_t pairs[8][2];
  explicit DoubledScales(__m128i scales) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(pairs), Join(_mm_unpacklo_epi16(scales, scales),
                                                               _mm_unpackhi_epi16(scales, scales)));
  }
  __m256i Get(int j) const { return Broadcast4(pairs[j]); }
};

// One register of 32-bit sums for each activation row: unpacking is done once for all of them.
template <int Rows>
using RowSums = __m256i[Rows];

// sums += scales * (pairs of unsigned weights times activations from k on)
template <int Rows>
inline void AddScaled(__m256i weights, ActivationRows<Rows> x, int k, __m256i scales,
                      RowSums<Rows>& sums) {
#pragma GCC unroll 4
  for (int t = 0; t < Rows; ++t) {
    const __m256i products = _mm256_maddubs_epi16(weights, Load32(x[t].values + k));
    sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(products, scales));
  }
}

// Sums of 32 activations, from those of 16.
inline __m128i SumsOf32(const int16_t* sums) {
  return _mm_hadd_epi16(Load16(sums), Load16(sums + 8));
}

template <class Block>
inline __m256 ScaledSumsWithMins(BlockRows<Block> w, const __m256i sums[8], const __m256i mins[4]) {
  const __m256 dmin = LoadHalves<Block>(w, [](const Block& b) { return b.dmin; });
  const __m256 z = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(SumEachPair(mins)));
  return _mm256_fmsub_ps(LoadScales<Block>(w), _mm256_cvtepi32_ps(SumEach(sums)), z);
}
template <class Block>
inline __m256 ScaledSuperSums(BlockRows<Block> w, const __m256i sums[8]) {
  return _mm256_mul_ps(LoadScales<Block>(w), _mm256_cvtepi32_ps(SumEach(sums)));
}

// The sums of one weight row's super-block, from zero.
template <int Rows>
inline void SumUp(const BlockQ4_K& b, ActivationRows<Rows> x, const DoubledScales& scales,
                  RowSums<Rows>& sums) {
  for (int run = 0; run < 4; ++run) {
    const __m256i qs = Load32(b.qs + run * 32);
    AddScaled<Rows>(LowNibbles(qs), x, run * 64, scales.Get(2 * run), sums);
    AddScaled<Rows>(HighNibbles(qs), x, run * 64 + 32, scales.Get(2 * run + 1), sums);
  }
}
template <int Rows>
inline void SumUp(const BlockQ5_K& b, ActivationRows<Rows> x, const DoubledScales& scales,
                  RowSums<Rows>& sums) {
  const __m256i bit = _mm256_set1_epi8(16);
  __m256i qh = Load32(b.qh);
  for (int run = 0; run < 4; ++run) {
    const __m256i qs = Load32(b.qs + run * 32);
    const __m256i low =
        _mm256_or_si256(LowNibbles(qs), _mm256_and_si256(_mm256_slli_epi16(qh, 4), bit));
    const __m256i high =
        _mm256_or_si256(HighNibbles(qs), _mm256_and_si256(_mm256_slli_epi16(qh, 3), bit));
    AddScaled<Rows>(low, x, run * 64, scales.Get(2 * run), sums);
    AddScaled<Rows>(high, x, run * 64 + 32, scales.Get(2 * run + 1), sums);
    qh = _mm256_srli_epi16(qh, 2);
  }
}
template <class Block>
struct KTerms {
  template <int Rows>
  static void Of(BlockRows<Block> w, ActivationRows<Rows> x, __m256 (&terms)[Rows]) {
    __m256i sums[Rows][kAbreast], mins[Rows][kAbreast / 2];
    __m128i sums32[Rows], low_mins[Rows][kAbreast / 2];
    for (int t = 0; t < Rows; ++t) sums32[t] = SumsOf32(x[t].sums);
    for (int i = 0; i < kAbreast; ++i) {
      const KScales k = UnpackKScales(w[i]->scales);
      RowSums<Rows> row = {};
      SumUp<Rows>(*w[i], x, DoubledScales(k.scales), row);
      for (int t = 0; t < Rows; ++t) {
        sums[t][i] = row[t];
        const __m128i m = _mm_madd_epi16(k.mins, sums32[t]);
        if (i < kAbreast / 2) {
          low_mins[t][i] = m;
        } else {
          mins[t][i - kAbreast / 2] = Join(low_mins[t][i - kAbreast / 2], m);
        }
      }
    }
    for (int t = 0; t < Rows; ++t) terms[t] = ScaledSumsWithMins<Block>(w, sums[t], mins[t]);
  }
};
template <>
struct Terms<BlockQ4_K> : KTerms<BlockQ4_K> {};
template <>
struct Terms<BlockQ5_K> : KTerms<BlockQ5_K> {};

// ---- scales of 16 values ------------------------------------------------------------------------

// 16-bit scales for 32 values: the scale of sub-block 2g eight times, then that of 2g + 1.
// `scales`: 16 signed bytes.
inline __m256i SpreadScales(__m128i scales, int g) {
  const __m128i which = _mm_add_epi8(_mm_set1_epi8(static_cast<char>(2 * g)),
                                     _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(scales, which));
}
// offset * (sum over sub-blocks of scale * sum of activations), as sums of a register
inline __m256i OffsetSums(__m128i scales, const int16_t* sums, int log2_offset) {
  return _mm256_slli_epi32(_mm256_madd_epi16(_mm256_cvtepi8_epi16(scales), Load32(sums)),
                           log2_offset);
}
// Two bits of each byte, from bit `shift` on, as 0 to 3.
inline __m256i TwoBits(__m256i v, int shift) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8(3));
}

// Terms of a type without mins, from the sums of each weight row.
template <class Block>
struct PlainTerms {
  template <int Rows>
  static void Of(BlockRows<Block> w, ActivationRows<Rows> x, __m256 (&terms)[Rows]) {
    __m256i sums[Rows][kAbreast];
    for (int i = 0; i < kAbreast; ++i) {
      RowSums<Rows> row = {};
      Terms<Block>::template SumUp<Rows>(*w[i], x, row);
      for (int t = 0; t < Rows; ++t) sums[t][i] = row[t];
    }
    for (int t = 0; t < Rows; ++t) terms[t] = ScaledSuperSums<Block>(w, sums[t]);
  }
};

template <>
struct Terms<BlockQ6_K> : PlainTerms<BlockQ6_K> {
  template <int Rows>
  static void SumUp(const BlockQ6_K& b, ActivationRows<Rows> x, RowSums<Rows>& sums) {
    const __m128i scales = Load16(b.scales);
    const __m256i high_bits = _mm256_set1_epi8(0x30);
    for (int run = 0; run < 2; ++run) {
      const __m256i ql0 = Load32(b.ql + run * 64), ql1 = Load32(b.ql + run * 64 + 32),
                    qh = Load32(b.qh + run * 32);
      const __m256i values[4] = {
          _mm256_or_si256(LowNibbles(ql0), _mm256_and_si256(_mm256_slli_epi16(qh, 4), high_bits)),
          _mm256_or_si256(LowNibbles(ql1), _mm256_and_si256(_mm256_slli_epi16(qh, 2), high_bits)),
          _mm256_or_si256(HighNibbles(ql0), _mm256_and_si256(qh, high_bits)),
          _mm256_or_si256(HighNibbles(ql1), _mm256_and_si256(_mm256_srli_epi16(qh, 2), high_bits))};
      for (int plane = 0; plane < 4; ++plane) {
        const int g = run * 4 + plane;
        AddScaled<Rows>(values[plane], x, g * 32, SpreadScales(scales, g), sums);
      }
    }
    for (int t = 0; t < Rows; ++t)
      sums[t] = _mm256_sub_epi32(sums[t], OffsetSums(scales, x[t].sums, 5));
  }
};

template <>
struct Terms<BlockQ3_K> : PlainTerms<BlockQ3_K> {
  static __m128i Scales(const BlockQ3_K& b) {
    constexpr uint32_t kLow4 = 0x0f0f0f0f, kLow2 = 0x03030303;
    const uint32_t u0 = Load4(b.scales), u1 = Load4(b.scales + 4), high = Load4(b.scales + 8);
    const auto word = [&](uint32_t low, int j) {
      return static_cast<int>((low & kLow4) | (high >> (2 * j) & kLow2) << 4);
    };
    const __m128i scales =
        _mm_setr_epi32(word(u0, 0), word(u1, 1), word(u0 >> 4, 2), word(u1 >> 4, 3));
    return _mm_sub_epi8(scales, _mm_set1_epi8(32));
  }
  template <int Rows>
  static void SumUp(const BlockQ3_K& b, ActivationRows<Rows> x, RowSums<Rows>& sums) {
    const __m128i scales = Scales(b);
    const __m256i hmask = Load32(b.hmask), third = _mm256_set1_epi8(4);
    for (int run = 0; run < 2; ++run) {
      const __m256i qs = Load32(b.qs + run * 32);
      for (int plane = 0; plane < 4; ++plane) {
        const int g = run * 4 + plane;
        const __m256i bit =
            g < 2 ? _mm256_slli_epi16(hmask, 2 - g) : _mm256_srli_epi16(hmask, g - 2);
        const __m256i values =
            _mm256_or_si256(TwoBits(qs, 2 * plane), _mm256_and_si256(bit, third));
        AddScaled<Rows>(values, x, g * 32, SpreadScales(scales, g), sums);
      }
    }
    for (int t = 0; t < Rows; ++t)
      sums[t] = _mm256_sub_epi32(sums[t], OffsetSums(scales, x[t].sums, 2));
  }
};

template <>
struct Terms<BlockQ2_K> {
  template <int Rows>
  static void Of(BlockRows<BlockQ2_K> w, ActivationRows<Rows> x, __m256 (&terms)[Rows]) {
    const __m128i nibble = _mm_set1_epi8(15);
    __m256i sums[Rows][kAbreast], mins[Rows][kAbreast];
    for (int i = 0; i < kAbreast; ++i) {
      const __m128i both = Load16(w[i]->scales);
      const __m256i row_mins = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(both, 4), nibble));
      RowSums<Rows> row = {};
      SumUp<Rows>(*w[i], x, _mm_and_si128(both, nibble), row);
      for (int t = 0; t < Rows; ++t) {
        sums[t][i] = row[t];
        mins[t][i] = _mm256_madd_epi16(row_mins, Load32(x[t].sums));
      }
    }
    const __m256 dmin = LoadHalves<BlockQ2_K>(w, [](const BlockQ2_K& b) { return b.dmin; });
    for (int t = 0; t < Rows; ++t) {
      const __m256 z = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(SumEach(mins[t])));
      terms[t] = _mm256_fmsub_ps(LoadScales<BlockQ2_K>(w), _mm256_cvtepi32_ps(SumEach(sums[t])), z);
    }
  }
  template <int Rows>
  static void SumUp(const BlockQ2_K& b, ActivationRows<Rows> x, __m128i scales,
                    RowSums<Rows>& sums) {
    for (int run = 0; run < 2; ++run) {
      const __m256i qs = Load32(b.qs + run * 32);
      for (int plane = 0; plane < 4; ++plane) {
        const int g = run * 4 + plane;
        AddScaled<Rows>(TwoBits(qs, 2 * plane), x, g * 32, SpreadScales(scales, g), sums);
      }
    }
  }
};

template <>
struct Terms<BlockIQ4_XS> : PlainTerms<BlockIQ4_XS> {
  static __m128i Scales(const BlockIQ4_XS& b) {
    const auto scale = [&](int k) { return static_cast<int16_t>(SubScale(b, 2 * k)); };
    return _mm_setr_epi16(scale(0), scale(1), scale(2), scale(3), scale(4), scale(5), scale(6),
                          scale(7));
  }
  template <int Rows>
  static void SumUp(const BlockIQ4_XS& b, ActivationRows<Rows> x, RowSums<Rows>& sums) {
    const __m256i book = Iq4Book();
    const DoubledScales scales(Scales(b));
    for (int g = 0; g < 8; ++g) {
      const __m128i qs = Load16(b.qs + g * 16);
      const __m256i nibbles = LowNibbles(Join(qs, _mm_srli_epi16(qs, 4)));
      const __m256i weights = _mm256_shuffle_epi8(book, nibbles),
                    magnitudes = _mm256_abs_epi8(weights);
      for (int t = 0; t < Rows; ++t) {
        const __m256i values = _mm256_sign_epi8(Load32(x[t].values + g * 32), weights);
        const __m256i products = _mm256_maddubs_epi16(magnitudes, values);
        sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(products, scales.Get(g)));
      }
    }
  }
};

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
