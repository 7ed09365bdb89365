// One super-block of 256 values in each of eight weight rows, times some activation rows. Sub-block
// scales multiply sums of 16-bit pairs, so that a row's super-block adds up in one register of
// 32-bit sums.
#pragma once

#include "kernels/cpu/avx2/row_matmul.h"
#include "kernels/cpu/expand.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

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

// What stands before the values of Q4_K and Q5_K, of eight rows at once: a lane a row.
struct KScales {
  __m256 d, dmin;
  alignas(32) int16_t scales[8][kAbreast][2];  // each twice, see DoubledScales
  __m256i mins[4];                             // of two sub-blocks, as 16-bit numbers

  template <class Block>
  explicit KScales(BlockRows<Block> w) {
    // d and dmin, then the 12 bytes that KScaleBytes and KMinBytes (expand.h) take apart.
    __m256i z[4];
    for (int i = 0; i < 4; ++i) z[i] = LoadPair(w[i], w[i + 4]);
    const __m256i l0 = _mm256_unpacklo_epi32(z[0], z[1]), l1 = _mm256_unpacklo_epi32(z[2], z[3]);
    const __m256i h0 = _mm256_unpackhi_epi32(z[0], z[1]), h1 = _mm256_unpackhi_epi32(z[2], z[3]);
    UnpackFactors(_mm256_unpacklo_epi64(l0, l1));
    UnpackBytes(_mm256_unpackhi_epi64(l0, l1), _mm256_unpacklo_epi64(h0, h1),
                _mm256_unpackhi_epi64(h0, h1));
  }
  __m256i Scale(int row, int j) const { return Broadcast4(scales[j][row]); }

 private:
  void UnpackFactors(__m256i both) {
    const __m256i low = _mm256_and_si256(both, _mm256_set1_epi32(0xffff));
    const __m256i halves =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(low, _mm256_srli_epi32(both, 16)), 0xd8);
    d = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    dmin = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
  }
  void UnpackBytes(__m256i u0, __m256i u1, __m256i u2) {
    const __m256i low6 = _mm256_set1_epi8(63), high2 = _mm256_set1_epi8(0x30);
    const auto high = [&](__m256i low4, __m256i top) {
      return _mm256_or_si256(low4, _mm256_and_si256(_mm256_srli_epi32(top, 2), high2));
    };
    const __m256i scale_bytes[2] = {_mm256_and_si256(u0, low6), high(LowNibbles(u2), u0)};
    const __m256i min_bytes[2] = {_mm256_and_si256(u1, low6), high(HighNibbles(u2), u1)};
    // Bytes j and k of each lane as 16-bit numbers.
    const auto words = [](int j, int k) {
      const int in_lane = j | 0x80 << 8 | k << 16 | static_cast<int>(0x80u << 24);
      return _mm256_add_epi32(
          _mm256_set1_epi32(in_lane),
          _mm256_setr_epi32(0, 0x040004, 0x080008, 0x0c000c, 0, 0x040004, 0x080008, 0x0c000c));
    };
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const __m256i doubled = _mm256_shuffle_epi8(scale_bytes[j / 4], words(j % 4, j % 4));
      _mm256_store_si256(reinterpret_cast<__m256i*>(scales[j]), doubled);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      mins[i] = _mm256_shuffle_epi8(min_bytes[i / 2], words(i % 2 * 2, i % 2 * 2 + 1));
    }
  }
};

// Sums of 32 activations, from those of 16; two make four bytes.
struct SumsOf32 {
  alignas(16) int16_t sums[8];
  explicit SumsOf32(const int16_t* sums16) {
    _mm_store_si128(reinterpret_cast<__m128i*>(sums),
                    _mm_hadd_epi16(Load16(sums16), Load16(sums16 + 8)));
  }
};

template <class Block>
inline __m256 ScaledSuperSums(BlockRows<Block> w, const __m256i sums[8]) {
  return _mm256_mul_ps(LoadScales<Block>(w), _mm256_cvtepi32_ps(SumEach(sums)));
}

// The sums of one weight row's super-block, from zero.
template <int Rows>
inline void SumUp(const BlockQ4_K& b, ActivationRows<Rows> x, const KScales& scales, int row,
                  RowSums<Rows>& sums) {
  for (int run = 0; run < 4; ++run) {
    const __m256i qs = Load32(b.qs + run * 32);
    AddScaled<Rows>(LowNibbles(qs), x, run * 64, scales.Scale(row, 2 * run), sums);
    AddScaled<Rows>(HighNibbles(qs), x, run * 64 + 32, scales.Scale(row, 2 * run + 1), sums);
  }
}
template <int Rows>
inline void SumUp(const BlockQ5_K& b, ActivationRows<Rows> x, const KScales& scales, int row,
                  RowSums<Rows>& sums) {
  const __m256i bit = _mm256_set1_epi8(16);
  __m256i qh = Load32(b.qh);
  for (int run = 0; run < 4; ++run) {
    const __m256i qs = Load32(b.qs + run * 32);
    const __m256i low =
        _mm256_or_si256(LowNibbles(qs), _mm256_and_si256(_mm256_slli_epi16(qh, 4), bit));
    const __m256i high =
        _mm256_or_si256(HighNibbles(qs), _mm256_and_si256(_mm256_slli_epi16(qh, 3), bit));
    AddScaled<Rows>(low, x, run * 64, scales.Scale(row, 2 * run), sums);
    AddScaled<Rows>(high, x, run * 64 + 32, scales.Scale(row, 2 * run + 1), sums);
    qh = _mm256_srli_epi16(qh, 2);
  }
}
template <class Block>
struct KTerms {
  template <int Rows>
  static void Of(BlockRows<Block> w, ActivationRows<Rows> x, __m256 (&terms)[Rows]) {
    const KScales scales(w);
    __m256i sums[Rows][kAbreast];
    for (int i = 0; i < kAbreast; ++i) {
      w.Fetch(i);
      RowSums<Rows> row = {};
      SumUp<Rows>(*w[i], x, scales, i, row);
      for (int t = 0; t < Rows; ++t) sums[t][i] = row[t];
    }
    for (int t = 0; t < Rows; ++t) {
      const SumsOf32 sums32(x[t].sums);
      __m256i mins = _mm256_setzero_si256();
      for (int i = 0; i < 4; ++i) {
        mins = _mm256_add_epi32(mins,
                                _mm256_madd_epi16(scales.mins[i], Broadcast4(sums32.sums + 2 * i)));
      }
      const __m256 z = _mm256_mul_ps(scales.dmin, _mm256_cvtepi32_ps(mins));
      terms[t] = _mm256_fmsub_ps(scales.d, _mm256_cvtepi32_ps(SumEach(sums[t])), z);
    }
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
      w.Fetch(i);
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
      w.Fetch(i);
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
