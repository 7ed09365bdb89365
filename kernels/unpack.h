// What the bits of each block type mean: the one scalar truth that CPU and CUDA kernels, embedding
// rows and tests share.
//
// A weight is made of integers and one or two floats of its block:
//     blocks of 32:        Scale * Integer(i)                      [+ Min]
//     super-blocks of 256: Scale * SubScale(i / 16) * Integer(i)   [- Min * SubMin(i / 16)]
// The integers are what a matmul sums exactly (ARITHMETIC.md); Unpack gives the value itself, bit
// for bit what ggml's own conversion gives.
#pragma once

#include "kernels/block_layouts.h"
#include "kernels/half.h"
#include "kernels/host_device.h"
#include "kernels/iq_grids.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

BATON_HD inline uint32_t Load2(Bytes2 b) { return b.bytes[0] | b.bytes[1] << 8; }
BATON_HD inline uint32_t Load4(const uint8_t* p) {
  return p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24;
}
BATON_HD inline float LoadHalf(Bytes2 b) { return HalfToFloat(static_cast<uint16_t>(Load2(b))); }

// Nibble i of 16 bytes as the types with blocks of 32 lay them out.
BATON_HD inline int Nibble32(const uint8_t* qs, int i) {
  return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}
// Field i of `Bits` bits of a super-block, each run of 32 bytes holding 8 / Bits planes of 32
// values.
template <int Bits>
BATON_HD inline int Plane(const uint8_t* qs, int i) {
  constexpr int kPlanes = 8 / Bits;
  const int run = i / (32 * kPlanes);
  const int plane = i / 32 % kPlanes;
  return qs[run * 32 + i % 32] >> (plane * Bits) & ((1 << Bits) - 1);
}
BATON_HD inline int Bit(const uint8_t* bits, int i) { return bits[i / 8] >> (i % 8) & 1; }

// Entry `i` of the 16 values that a nibble stands for. Packed, since device code has no constant
// tables of the host.
BATON_HD inline int Iq4Value(int i) {
  constexpr uint64_t kLow = 0xf6eaddcfbfad9881;   // -127 -104 -83 -65 -49 -35 -22 -10
  constexpr uint64_t kHigh = 0x7159453526190d01;  // 1 13 25 38 53 69 89 113
  return static_cast<int8_t>((i < 8 ? kLow : kHigh) >> (i % 8 * 8) & 255);
}
BATON_HD inline int Fp4Value(int i) {  // E2M1, doubled
  constexpr uint64_t kMagnitudes = 0x0c08060403020100;
  const int magnitude = static_cast<int>(kMagnitudes >> (i % 8 * 8) & 255);
  return i < 8 ? magnitude : -magnitude;
}

// ---- blocks of 32 -------------------------------------------------------------------------------

BATON_HD inline int Integer(const BlockQ4_0& b, int i) { return Nibble32(b.qs, i) - 8; }
BATON_HD inline int Integer(const BlockQ4_1& b, int i) { return Nibble32(b.qs, i); }
BATON_HD inline int Integer(const BlockQ5_0& b, int i) {
  return (Nibble32(b.qs, i) | Bit(b.qh, i) << 4) - 16;
}
BATON_HD inline int Integer(const BlockQ5_1& b, int i) {
  return Nibble32(b.qs, i) | Bit(b.qh, i) << 4;
}
BATON_HD inline int Integer(const BlockQ8_0& b, int i) { return b.qs[i]; }
BATON_HD inline int Integer(const BlockIQ4_NL& b, int i) { return Iq4Value(Nibble32(b.qs, i)); }
BATON_HD inline int Integer(const BlockMXFP4& b, int i) { return Fp4Value(Nibble32(b.qs, i)); }

BATON_HD inline float Scale(const BlockQ4_0& b) { return LoadHalf(b.d); }
BATON_HD inline float Scale(const BlockQ4_1& b) { return LoadHalf(b.d); }
BATON_HD inline float Scale(const BlockQ5_0& b) { return LoadHalf(b.d); }
BATON_HD inline float Scale(const BlockQ5_1& b) { return LoadHalf(b.d); }
BATON_HD inline float Scale(const BlockQ8_0& b) { return LoadHalf(b.d); }
BATON_HD inline float Scale(const BlockIQ4_NL& b) { return LoadHalf(b.d); }
BATON_HD inline float Scale(
    const BlockMXFP4& b) {  // 2^(e - 128): half, since the integers are doubled
  return FloatFromBits(b.e < 2 ? 0x00200000u << b.e : (b.e - 1u) << 23);
}

BATON_HD inline float Min(const BlockQ4_1& b) { return LoadHalf(b.m); }
BATON_HD inline float Min(const BlockQ5_1& b) { return LoadHalf(b.m); }

// ---- super-blocks of linear types ---------------------------------------------------------------

BATON_HD inline int Integer(const BlockQ2_K& b, int i) { return Plane<2>(b.qs, i); }
BATON_HD inline int SubScale(const BlockQ2_K& b, int j) { return b.scales[j] & 15; }
BATON_HD inline int SubMin(const BlockQ2_K& b, int j) { return b.scales[j] >> 4; }
BATON_HD inline float Scale(const BlockQ2_K& b) { return LoadHalf(b.d); }
BATON_HD inline float Min(const BlockQ2_K& b) { return LoadHalf(b.dmin); }

BATON_HD inline int Integer(const BlockQ3_K& b, int i) {
  return Plane<2>(b.qs, i) - 4 * (1 - Plane<1>(b.hmask, i));
}
BATON_HD inline int SubScale(const BlockQ3_K& b, int j) {
  const int low = j < 8 ? b.scales[j] & 15 : b.scales[j - 8] >> 4;
  const int high = b.scales[8 + j % 4] >> (j / 4 * 2) & 3;
  return (low | high << 4) - 32;
}
BATON_HD inline float Scale(const BlockQ3_K& b) { return LoadHalf(b.d); }

// Scale and min of sub-block j (of 32 values) in the 12 bytes of Q4_K and Q5_K.
BATON_HD inline int KScale(const uint8_t* s, int j) {
  return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
}
BATON_HD inline int KMin(const uint8_t* s, int j) {
  return j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
}
BATON_HD inline int Integer(const BlockQ4_K& b, int i) { return Plane<4>(b.qs, i); }
BATON_HD inline int SubScale(const BlockQ4_K& b, int j) { return KScale(b.scales, j / 2); }
BATON_HD inline int SubMin(const BlockQ4_K& b, int j) { return KMin(b.scales, j / 2); }
BATON_HD inline float Scale(const BlockQ4_K& b) { return LoadHalf(b.d); }
BATON_HD inline float Min(const BlockQ4_K& b) { return LoadHalf(b.dmin); }

BATON_HD inline int Integer(const BlockQ5_K& b, int i) {
  return Plane<4>(b.qs, i) | Plane<1>(b.qh, i) << 4;
}
BATON_HD inline int SubScale(const BlockQ5_K& b, int j) { return KScale(b.scales, j / 2); }
BATON_HD inline int SubMin(const BlockQ5_K& b, int j) { return KMin(b.scales, j / 2); }
BATON_HD inline float Scale(const BlockQ5_K& b) { return LoadHalf(b.d); }
BATON_HD inline float Min(const BlockQ5_K& b) { return LoadHalf(b.dmin); }

BATON_HD inline int Integer(const BlockQ6_K& b, int i) {
  const int half = i / 128, plane = i / 32 % 4;
  const int low = b.ql[half * 64 + plane % 2 * 32 + i % 32] >> (plane / 2 * 4) & 15;
  return (low | Plane<2>(b.qh, i) << 4) - 32;
}
BATON_HD inline int SubScale(const BlockQ6_K& b, int j) { return b.scales[j]; }
BATON_HD inline float Scale(const BlockQ6_K& b) { return LoadHalf(b.d); }

BATON_HD inline int Integer(const BlockTQ1_0& b, int i) {
  // Digit n of a byte q, a fraction of 256 in base 3: the top of 3 * (q * 3^n mod 256).
  const uint8_t byte = i < 160 ? b.qs[i % 32] : i < 240 ? b.qs[32 + i % 16] : b.qh[i % 4];
  const int digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
  const int power = digit == 0 ? 1 : digit == 1 ? 3 : digit == 2 ? 9 : digit == 3 ? 27 : 81;
  return ((byte * power & 255) * 3 >> 8) - 1;
}
BATON_HD inline int SubScale(const BlockTQ1_0&, int) { return 1; }
BATON_HD inline float Scale(const BlockTQ1_0& b) { return LoadHalf(b.d); }

BATON_HD inline int Integer(const BlockTQ2_0& b, int i) { return Plane<2>(b.qs, i) - 1; }
BATON_HD inline int SubScale(const BlockTQ2_0&, int) { return 1; }
BATON_HD inline float Scale(const BlockTQ2_0& b) { return LoadHalf(b.d); }

// ---- super-blocks of code book types ------------------------------------------------------------

BATON_HD inline int Integer(const BlockIQ4_XS& b, int i) {
  return Iq4Value(b.qs[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15);
}
BATON_HD inline int SubScale(const BlockIQ4_XS& b, int j) {
  const int k = j / 2;
  const int low = b.scales_l[k / 2] >> (k % 2 * 4) & 15;
  const int high = static_cast<int>(Load2(b.scales_h) >> (2 * k) & 3);
  return (low | high << 4) - 32;
}
BATON_HD inline float Scale(const BlockIQ4_XS& b) { return LoadHalf(b.d); }

// Value `digit` (0..2) of the IQ2 grids, and sign bit j of 7 stored bits (the eighth makes the
// number of signs even).
BATON_HD inline int Iq2Value(int digit) { return digit == 0 ? 8 : digit == 1 ? 25 : 43; }
BATON_HD inline int Iq3XxsValue(int digit) { return digit == 7 ? 62 : 4 + 8 * digit; }
BATON_HD inline int Sign7(uint32_t bits, int j) {
  if (j < 7) return bits >> j & 1;
  bits ^= bits >> 4;
  bits ^= bits >> 2;
  return (bits ^ bits >> 1) & 1;
}
BATON_HD inline int WithSign(int value, int negative) { return negative ? -value : value; }

BATON_HD inline int Integer(const BlockIQ2_XXS& b, int i) {
  const uint8_t* group = b.qs + i / 32 * 8;
  const uint32_t signs = Load4(group + 4) >> (i % 32 / 8 * 7) & 127;
  const int entry = BATON_GRID_ENTRY(kIq2XxsGrid, group[i % 32 / 8]);
  return WithSign(Iq2Value(entry >> (i % 8 * 2) & 3), Sign7(signs, i % 8));
}
BATON_HD inline int SubScale(const BlockIQ2_XXS& b, int j) {
  return 2 * static_cast<int>(Load4(b.qs + j / 2 * 8 + 4) >> 28) + 1;
}
BATON_HD inline float Scale(const BlockIQ2_XXS& b) { return LoadHalf(b.d) * 0.125f; }

BATON_HD inline int Integer(const BlockIQ2_XS& b, int i) {
  const uint32_t q = Load2(b.qs[i / 8]);
  const int entry = BATON_GRID_ENTRY(kIq2XsGrid, q & 511);
  return WithSign(Iq2Value(entry >> (i % 8 * 2) & 3), Sign7(q >> 9, i % 8));
}
BATON_HD inline int SubScale(const BlockIQ2_XS& b, int j) {
  return 2 * (b.scales[j / 2] >> (j % 2 * 4) & 15) + 1;
}
BATON_HD inline float Scale(const BlockIQ2_XS& b) { return LoadHalf(b.d) * 0.125f; }

BATON_HD inline int Integer(const BlockIQ2_S& b, int i) {
  const int k = i / 8;
  const int index = b.qs[k] | (b.qh[k / 4] >> (k % 4 * 2) & 3) << 8;
  const int entry = BATON_GRID_ENTRY(kIq2SGrid, index);
  return WithSign(Iq2Value(entry >> (i % 8 * 2) & 3), Bit(b.signs, i));
}
BATON_HD inline int SubScale(const BlockIQ2_S& b, int j) {
  return 2 * (b.scales[j / 2] >> (j % 2 * 4) & 15) + 1;
}
BATON_HD inline float Scale(const BlockIQ2_S& b) { return LoadHalf(b.d) * 0.125f; }

BATON_HD inline int Integer(const BlockIQ3_XXS& b, int i) {
  const uint32_t signs = Load4(b.signs + i / 32 * 4) >> (i % 32 / 8 * 7) & 127;
  const int entry = BATON_GRID_ENTRY(kIq3XxsGrid, b.qs[i / 4]);
  return WithSign(Iq3XxsValue(entry >> (i % 4 * 3) & 7), Sign7(signs, i % 8));
}
BATON_HD inline int SubScale(const BlockIQ3_XXS& b, int j) {
  return 2 * static_cast<int>(Load4(b.signs + j / 2 * 4) >> 28) + 1;
}
BATON_HD inline float Scale(const BlockIQ3_XXS& b) { return LoadHalf(b.d) * 0.25f; }

BATON_HD inline int Integer(const BlockIQ3_S& b, int i) {
  const int k = i / 4;
  const int entry = BATON_GRID_ENTRY(kIq3SGrid, b.qs[k] | Bit(b.qh, k) << 8);
  return WithSign(2 * (entry >> (i % 4 * 3) & 7) + 1, Bit(b.signs, i));
}
BATON_HD inline int SubScale(const BlockIQ3_S& b, int j) {
  const int k = j / 2;
  return 2 * (b.scales[k / 2] >> (k % 2 * 4) & 15) + 1;
}
BATON_HD inline float Scale(const BlockIQ3_S& b) { return LoadHalf(b.d); }

// IQ1 weights are a ternary digit plus or minus 1/8; the integers are eight times that.
BATON_HD inline int Iq1Integer(int index, int i, int negative) {
  const int digit = BATON_GRID_ENTRY(kIq1Grid, index) >> (i % 8 * 2) & 3;
  return 8 * (digit - 1) + (negative ? -1 : 1);
}
BATON_HD inline int Integer(const BlockIQ1_S& b, int i) {
  const uint32_t qh = Load2(b.qh[i / 32]);
  const int index = b.qs[i / 8] | static_cast<int>(qh >> (i % 32 / 8 * 3) & 7) << 8;
  return Iq1Integer(index, i, qh >> 15);
}
BATON_HD inline int SubScale(const BlockIQ1_S& b, int j) {
  return 2 * static_cast<int>(Load2(b.qh[j / 2]) >> 12 & 7) + 1;
}
BATON_HD inline float Scale(const BlockIQ1_S& b) { return LoadHalf(b.d) * 0.125f; }

BATON_HD inline int Integer(const BlockIQ1_M& b, int i) {
  const int k = i / 8;
  const int qh = b.qh[k / 2] >> (k % 2 * 4);
  return Iq1Integer(b.qs[k] | (qh & 7) << 8, i, qh >> 3 & 1);
}
BATON_HD inline int SubScale(const BlockIQ1_M& b, int j) {
  return 2 * static_cast<int>(Load2(b.scales[j / 4]) >> (j % 4 * 3) & 7) + 1;
}
BATON_HD inline float Scale(const BlockIQ1_M& b) {
  const uint32_t d = Load2(b.scales[0]) >> 12 | Load2(b.scales[1]) >> 12 << 4 |
                     Load2(b.scales[2]) >> 12 << 8 | Load2(b.scales[3]) >> 12 << 12;
  return HalfToFloat(static_cast<uint16_t>(d)) * 0.125f;
}

// ---- values -------------------------------------------------------------------------------------

template <class Block>
inline constexpr int kValues = TraitsOf(Block::kType).block_size;
template <class Block>
concept HasMin = requires(const Block& b) {
  Min(b);
};

template <class Block>
BATON_HD inline float Unpack(const Block& b, int i) {
  const float q = static_cast<float>(Integer(b, i));
  if constexpr (kValues<Block> == 32) {
    if constexpr (HasMin<Block>) return Scale(b) * q + Min(b);
    return Scale(b) * q;
  } else {
    const float value = Scale(b) * static_cast<float>(SubScale(b, i / 16)) * q;
    if constexpr (HasMin<Block>) return value - Min(b) * static_cast<float>(SubMin(b, i / 16));
    return value;
  }
}
BATON_HD inline float Unpack(const BlockF32& b, int) { return FloatFromBits(Load4(b.bytes)); }
BATON_HD inline float Unpack(const BlockF16& b, int) { return LoadHalf(b.bits); }
BATON_HD inline float Unpack(const BlockBF16& b, int) {
  return Bfloat16ToFloat(static_cast<uint16_t>(Load2(b.bits)));
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
