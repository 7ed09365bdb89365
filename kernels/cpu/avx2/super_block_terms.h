// One super-block of 256 values in each of eight weight rows, times one activation row. Sub-block
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

// sums += scales * (pairs of unsigned weights times activations)
inline __m256i AddScaled(__m256i sums, __m256i weights, const int8_t* x, __m256i scales) {
  return _mm256_add_epi32(sums,
                          _mm256_madd_epi16(_mm256_maddubs_epi16(weights, Load32(x)), scales));
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

inline __m256i SumsOf(const BlockQ4_K& b, const int8_t* x, const DoubledScales& scales) {
  __m256i sums = _mm256_setzero_si256();
  for (int run = 0; run < 4; ++run) {
    const __m256i qs = Load32(b.qs + run * 32);
    sums = AddScaled(sums, LowNibbles(qs), x + run * 64, scales.Get(2 * run));
    sums = AddScaled(sums, HighNibbles(qs), x + run * 64 + 32, scales.Get(2 * run + 1));
  }
  return sums;
}
inline __m256i SumsOf(const BlockQ5_K& b, const int8_t* x, const DoubledScales& scales) {
  const __m256i bit = _mm256_set1_epi8(16);
  __m256i sums = _mm256_setzero_si256(), qh = Load32(b.qh);
  for (int run = 0; run < 4; ++run) {
    const __m256i qs = Load32(b.qs + run * 32);
    const __m256i low =
        _mm256_or_si256(LowNibbles(qs), _mm256_and_si256(_mm256_slli_epi16(qh, 4), bit));
    const __m256i high =
        _mm256_or_si256(HighNibbles(qs), _mm256_and_si256(_mm256_slli_epi16(qh, 3), bit));
    sums = AddScaled(sums, low, x + run * 64, scales.Get(2 * run));
    sums = AddScaled(sums, high, x + run * 64 + 32, scales.Get(2 * run + 1));
    qh = _mm256_srli_epi16(qh, 2);
  }
  return sums;
}
template <class Block>
inline __m256 KTerms(BlockRows<Block> w, const BlockActivations& x) {
  const __m128i sums32 = SumsOf32(x.sums);
  __m256i sums[kAbreast], mins[4];
  __m128i low_mins[4];
  for (int i = 0; i < kAbreast; ++i) {
    const KScales k = UnpackKScales(w[i]->scales);
    sums[i] = SumsOf(*w[i], x.values, DoubledScales(k.scales));
    const __m128i m = _mm_madd_epi16(k.mins, sums32);
    if (i < 4) {
      low_mins[i] = m;
    } else {
      mins[i - 4] = Join(low_mins[i - 4], m);
    }
  }
  return ScaledSumsWithMins<Block>(w, sums, mins);
}
template <>
struct Terms<BlockQ4_K> {
  static __m256 Of(BlockRows<BlockQ4_K> w, const BlockActivations& x) {
    return KTerms<BlockQ4_K>(w, x);
  }
};
template <>
struct Terms<BlockQ5_K> {
  static __m256 Of(BlockRows<BlockQ5_K> w, const BlockActivations& x) {
    return KTerms<BlockQ5_K>(w, x);
  }
};

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

template <>
struct Terms<BlockQ6_K> {
  static __m256 Of(BlockRows<BlockQ6_K> w, const BlockActivations& x) {
    __m256i sums[kAbreast];
    for (int i = 0; i < kAbreast; ++i) sums[i] = SumsOf(*w[i], x);
    return ScaledSuperSums<BlockQ6_K>(w, sums);
  }
  static __m256i SumsOf(const BlockQ6_K& b, const BlockActivations& x) {
    const __m128i scales = Load16(b.scales);
    const __m256i high_bits = _mm256_set1_epi8(0x30);
    __m256i sums = _mm256_setzero_si256();
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
        sums = AddScaled(sums, values[plane], x.values + g * 32, SpreadScales(scales, g));
      }
    }
    return _mm256_sub_epi32(sums, OffsetSums(scales, x.sums, 5));
  }
};

template <>
struct Terms<BlockQ3_K> {
  static __m256 Of(BlockRows<BlockQ3_K> w, const BlockActivations& x) {
    __m256i sums[kAbreast];
    for (int i = 0; i < kAbreast; ++i) sums[i] = SumsOf(*w[i], x);
    return ScaledSuperSums<BlockQ3_K>(w, sums);
  }
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
  static __m256i SumsOf(const BlockQ3_K& b, const BlockActivations& x) {
    const __m128i scales = Scales(b);
    const __m256i hmask = Load32(b.hmask), third = _mm256_set1_epi8(4);
    __m256i sums = _mm256_setzero_si256();
    for (int run = 0; run < 2; ++run) {
      const __m256i qs = Load32(b.qs + run * 32);
      for (int plane = 0; plane < 4; ++plane) {
        const int g = run * 4 + plane;
        const __m256i bit =
            g < 2 ? _mm256_slli_epi16(hmask, 2 - g) : _mm256_srli_epi16(hmask, g - 2);
        const __m256i values =
            _mm256_or_si256(TwoBits(qs, 2 * plane), _mm256_and_si256(bit, third));
        sums = AddScaled(sums, values, x.values + g * 32, SpreadScales(scales, g));
      }
    }
    return _mm256_sub_epi32(sums, OffsetSums(scales, x.sums, 2));
  }
};

template <>
struct Terms<BlockQ2_K> {
  static __m256 Of(BlockRows<BlockQ2_K> w, const BlockActivations& x) {
    const __m128i nibble = _mm_set1_epi8(15);
    __m256i sums[kAbreast], all_mins[kAbreast];
    for (int i = 0; i < kAbreast; ++i) {
      const __m128i both = Load16(w[i]->scales);
      const __m128i scales = _mm_and_si128(both, nibble),
                    mins = _mm_and_si128(_mm_srli_epi16(both, 4), nibble);
      all_mins[i] = _mm256_madd_epi16(_mm256_cvtepu8_epi16(mins), Load32(x.sums));
      sums[i] = SumsOf(*w[i], x, scales);
    }
    const __m256 dmin = LoadHalves<BlockQ2_K>(w, [](const BlockQ2_K& b) { return b.dmin; });
    const __m256 z = _mm256_mul_ps(dmin, _mm256_cvtepi32_ps(SumEach(all_mins)));
    return _mm256_fmsub_ps(LoadScales<BlockQ2_K>(w), _mm256_cvtepi32_ps(SumEach(sums)), z);
  }
  static __m256i SumsOf(const BlockQ2_K& b, const BlockActivations& x, __m128i scales) {
    __m256i sums = _mm256_setzero_si256();
    for (int run = 0; run < 2; ++run) {
      const __m256i qs = Load32(b.qs + run * 32);
      for (int plane = 0; plane < 4; ++plane) {
        const int g = run * 4 + plane;
        sums = AddScaled(sums, TwoBits(qs, 2 * plane), x.values + g * 32, SpreadScales(scales, g));
      }
    }
    return sums;
  }
};

template <>
struct Terms<BlockIQ4_XS> {
  static __m256 Of(BlockRows<BlockIQ4_XS> w, const BlockActivations& x) {
    __m256i sums[kAbreast];
    for (int i = 0; i < kAbreast; ++i) sums[i] = SumsOf(*w[i], x);
    return ScaledSuperSums<BlockIQ4_XS>(w, sums);
  }
  static __m128i Scales(const BlockIQ4_XS& b) {
    const auto scale = [&](int k) { return static_cast<int16_t>(SubScale(b, 2 * k)); };
    return _mm_setr_epi16(scale(0), scale(1), scale(2), scale(3), scale(4), scale(5), scale(6),
                          scale(7));
  }
  static __m256i SumsOf(const BlockIQ4_XS& b, const BlockActivations& x) {
    const __m256i book = Iq4Book();
    const DoubledScales scales(Scales(b));
    __m256i sums = _mm256_setzero_si256();
    for (int g = 0; g < 8; ++g) {
      const __m128i qs = Load16(b.qs + g * 16);
      const __m256i nibbles = LowNibbles(Join(qs, _mm_srli_epi16(qs, 4)));
      const __m256i weights = _mm256_shuffle_epi8(book, nibbles),
                    values = Load32(x.values + g * 32);
      const __m256i products =
          _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(values, weights));
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(products, scales.Get(g)));
    }
    return sums;
  }
};

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
