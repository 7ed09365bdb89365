// Blocks of code book and ternary types as bytes (see expand.h). Grid entries are kept spread out,
// eight or four bytes each, so that a lookup gives all of them at once.
#pragma once

#include "kernels/cpu/expand.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <int Entries>
struct Iq8Grid {
  uint8_t values[Entries][8];
};
template <int Entries>
struct Iq4Grid {
  uint8_t values[Entries][4];
};
template <int Entries, class Value>
constexpr Iq8Grid<Entries> SpreadGrid8(const uint16_t (&grid)[Entries], Value value) {
  Iq8Grid<Entries> spread{};
  for (int i = 0; i < Entries; ++i) {
    for (int j = 0; j < 8; ++j)
      spread.values[i][j] = static_cast<uint8_t>(value(grid[i] >> (2 * j) & 3));
  }
  return spread;
}
template <int Entries, class Value>
constexpr Iq4Grid<Entries> SpreadGrid4(const uint16_t (&grid)[Entries], Value value) {
  Iq4Grid<Entries> spread{};
  for (int i = 0; i < Entries; ++i) {
    for (int j = 0; j < 4; ++j)
      spread.values[i][j] = static_cast<uint8_t>(value(grid[i] >> (3 * j) & 7));
  }
  return spread;
}
constexpr int SpreadIq2(int digit) { return digit == 0 ? 8 : digit == 1 ? 25 : 43; }
constexpr int SpreadIq3Xxs(int digit) { return digit == 7 ? 62 : 4 + 8 * digit; }
constexpr int SpreadIq3S(int digit) { return 2 * digit + 1; }
constexpr int SpreadIq1(int digit) { return 8 * digit; }  // made unsigned: -8, 0, 8 are 0, 8, 16

inline constexpr auto kIq2XxsBytes = SpreadGrid8(kIq2XxsGrid, SpreadIq2);
inline constexpr auto kIq2XsBytes = SpreadGrid8(kIq2XsGrid, SpreadIq2);
inline constexpr auto kIq2SBytes = SpreadGrid8(kIq2SGrid, SpreadIq2);
inline constexpr auto kIq3XxsBytes = SpreadGrid4(kIq3XxsGrid, SpreadIq3Xxs);
inline constexpr auto kIq3SBytes = SpreadGrid4(kIq3SGrid, SpreadIq3S);
inline constexpr auto kIq1Bytes = SpreadGrid8(kIq1Grid, SpreadIq1);

// Eight values, negative where the bit is set, plus an offset that makes them unsigned.
template <class Block>
inline void StoreSigned(Bytes<8> magnitudes, int signs, uint8_t* out) {
  constexpr Bytes<8> kBit = {1, 2, 4, 8, 16, 32, 64, 128};
  const Bytes<8> spread = Bytes<8>{} + static_cast<uint8_t>(signs);
  const Bytes<8> negative = reinterpret_cast<Bytes<8>>((spread & kBit) == kBit);
  constexpr auto kOffset = static_cast<uint8_t>(IntegerRange<Block>::kOffset);
  StoreBytes((magnitudes ^ negative) - negative + kOffset, out);
}
// The eighth sign of seven stored ones makes their number even.
inline int EightSigns(uint32_t seven) {
  return static_cast<int>(seven | static_cast<uint32_t>(__builtin_parity(seven)) << 7);
}
template <int Entries>
inline Bytes<8> JoinFours(const Iq4Grid<Entries>& grid, int first, int second) {
  Bytes<8> v;
  memcpy(&v, grid.values[first], 4);
  memcpy(reinterpret_cast<char*>(&v) + 4, grid.values[second], 4);
  return v;
}

inline void ExpandValues(const BlockIQ2_XXS& b, uint8_t* out) {
  for (int k = 0; k < 32; ++k) {
    const uint8_t* group = b.qs + k / 4 * 8;
    const uint32_t signs = Load4(group + 4) >> (k % 4 * 7) & 127;
    StoreSigned<BlockIQ2_XXS>(LoadBytes<8>(kIq2XxsBytes.values[group[k % 4]]), EightSigns(signs),
                              out + 8 * k);
  }
}
inline void ExpandValues(const BlockIQ2_XS& b, uint8_t* out) {
  for (int k = 0; k < 32; ++k) {
    const uint32_t q = Load2(b.qs[k]);
    StoreSigned<BlockIQ2_XS>(LoadBytes<8>(kIq2XsBytes.values[q & 511]), EightSigns(q >> 9),
                             out + 8 * k);
  }
}
inline void ExpandValues(const BlockIQ2_S& b, uint8_t* out) {
  for (int k = 0; k < 32; ++k) {
    const int index = b.qs[k] | (b.qh[k / 4] >> (k % 4 * 2) & 3) << 8;
    StoreSigned<BlockIQ2_S>(LoadBytes<8>(kIq2SBytes.values[index]), b.signs[k], out + 8 * k);
  }
}
inline void ExpandValues(const BlockIQ3_XXS& b, uint8_t* out) {
  for (int k = 0; k < 32; ++k) {
    const uint32_t signs = Load4(b.signs + k / 4 * 4) >> (k % 4 * 7) & 127;
    const Bytes<8> values = JoinFours(kIq3XxsBytes, b.qs[2 * k], b.qs[2 * k + 1]);
    StoreSigned<BlockIQ3_XXS>(values, EightSigns(signs), out + 8 * k);
  }
}
inline void ExpandValues(const BlockIQ3_S& b, uint8_t* out) {
  for (int k = 0; k < 32; ++k) {
    const auto index = [&](int i) { return b.qs[i] | Bit(b.qh, i) << 8; };
    const Bytes<8> values = JoinFours(kIq3SBytes, index(2 * k), index(2 * k + 1));
    StoreSigned<BlockIQ3_S>(values, b.signs[k], out + 8 * k);
  }
}
// Digits 0 to 2 stand for 8 * (digit - 1) plus or minus 1; with the offset of 9 that is 8 * digit
// plus 2 or 0.
inline void StoreIq1(int index, int negative, uint8_t* out) {
  const auto delta = static_cast<uint8_t>(negative ? 0 : 2);
  StoreBytes(LoadBytes<8>(kIq1Bytes.values[index]) + delta, out);
}
inline void ExpandValues(const BlockIQ1_S& b, uint8_t* out) {
  for (int k = 0; k < 32; ++k) {
    const uint32_t qh = Load2(b.qh[k / 4]);
    const int high = static_cast<int>(qh >> (k % 4 * 3) & 7);
    StoreIq1(b.qs[k] | high << 8, static_cast<int>(qh >> 15), out + 8 * k);
  }
}
inline void ExpandValues(const BlockIQ1_M& b, uint8_t* out) {
  for (int k = 0; k < 32; ++k) {
    const int qh = b.qh[k / 2] >> (k % 2 * 4);
    StoreIq1(b.qs[k] | (qh & 7) << 8, qh >> 3 & 1, out + 8 * k);
  }
}

// Nibbles replaced by the bytes they stand for.
inline Bytes<16> LookUp(Bytes<16> book, Bytes<16> nibbles) {
#ifdef __clang__
  Bytes<16> v;
  for (int i = 0; i < 16; ++i) v[i] = book[nibbles[i]];
  return v;
#else
  return __builtin_shuffle(book, nibbles);
#endif
}
inline void ExpandBook(Bytes<16> book, const uint8_t* qs, uint8_t* out) {
  const Bytes<16> v = LoadBytes<16>(qs);
  StoreBytes(LookUp(book, v & 15), out);
  StoreBytes(LookUp(book, v >> 4), out + 16);
}
inline constexpr Bytes<16> kIq4BookBytes = {1,   24,  45,  63,  79,  93,  106, 118,
                                            129, 141, 153, 166, 181, 197, 217, 241};  // + 128
inline constexpr Bytes<16> kFp4BookBytes = {12, 13, 14, 15, 16, 18, 20, 24,
                                            12, 11, 10, 9,  8,  6,  4,  0};  // + 12
inline void ExpandValues(const BlockIQ4_NL& b, uint8_t* out) {
  ExpandBook(kIq4BookBytes, b.qs, out);
}
inline void ExpandValues(const BlockMXFP4& b, uint8_t* out) {
  ExpandBook(kFp4BookBytes, b.qs, out);
}
inline void ExpandValues(const BlockIQ4_XS& b, uint8_t* out) {
  for (int k = 0; k < 8; ++k) ExpandBook(kIq4BookBytes, b.qs + 16 * k, out + 32 * k);
}

// Digit n of bytes in base 3, as unpack.h says: 3 * (byte * 3^n mod 256) >> 8 is 0 below 86, 1
// below 171, else 2.
template <int Size>
inline void StoreTernary(const uint8_t* qs, int digits, uint8_t* out) {
  Bytes<Size> v = LoadBytes<Size>(qs);
  for (int n = 0; n < digits; ++n, v *= 3) {
    const auto above = [&](uint8_t bound) { return reinterpret_cast<Bytes<Size>>(v > bound); };
    StoreBytes(Bytes<Size>{} - above(85) - above(170), out + n * Size);
  }
}
inline void ExpandValues(const BlockTQ1_0& b, uint8_t* out) {
  StoreTernary<32>(b.qs, 5, out);
  StoreTernary<16>(b.qs + 32, 5, out + 160);
  StoreTernary<4>(b.qh, 4, out + 240);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
