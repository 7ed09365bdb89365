// Blocks as bytes: the integers of a block in order, made unsigned by an offset, for kernels that
// multiply unsigned weights by signed activations. The offset comes off again through sums of
// activations. Plain loops, which compilers turn into vector code; types without one of their own
// are expanded value by value.
#pragma once

#include "kernels/unpack.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// What Integer(block, i) + kOffset ranges over: [0, kLargest].
template <class Block>
struct IntegerRange;
#define BATON_INTEGER_RANGE(Block, offset, largest)            \
  template <>                                                  \
  struct IntegerRange<Block> {                                 \
    static constexpr int kOffset = offset, kLargest = largest; \
  };
BATON_INTEGER_RANGE(BlockQ4_0, 8, 15)
BATON_INTEGER_RANGE(BlockQ4_1, 0, 15)
BATON_INTEGER_RANGE(BlockQ5_0, 16, 31)
BATON_INTEGER_RANGE(BlockQ5_1, 0, 31)
BATON_INTEGER_RANGE(BlockQ8_0, 128, 255)
BATON_INTEGER_RANGE(BlockIQ4_NL, 128, 255)
BATON_INTEGER_RANGE(BlockMXFP4, 12, 24)
BATON_INTEGER_RANGE(BlockQ2_K, 0, 3)
BATON_INTEGER_RANGE(BlockQ3_K, 4, 7)
BATON_INTEGER_RANGE(BlockQ4_K, 0, 15)
BATON_INTEGER_RANGE(BlockQ5_K, 0, 31)
BATON_INTEGER_RANGE(BlockQ6_K, 32, 63)
BATON_INTEGER_RANGE(BlockIQ4_XS, 128, 255)
BATON_INTEGER_RANGE(BlockIQ2_XXS, 43, 86)
BATON_INTEGER_RANGE(BlockIQ2_XS, 43, 86)
BATON_INTEGER_RANGE(BlockIQ2_S, 43, 86)
BATON_INTEGER_RANGE(BlockIQ3_XXS, 62, 124)
BATON_INTEGER_RANGE(BlockIQ3_S, 15, 30)
BATON_INTEGER_RANGE(BlockIQ1_S, 9, 18)
BATON_INTEGER_RANGE(BlockIQ1_M, 9, 18)
BATON_INTEGER_RANGE(BlockTQ1_0, 1, 2)
BATON_INTEGER_RANGE(
    BlockTQ2_0, 1,
    3)  // the fourth pattern of two bits is no ternary digit, but may stand in a file
#undef BATON_INTEGER_RANGE

template <class Block>
inline void ExpandValues(const Block& b, uint8_t* out) {
  for (int i = 0; i < kValues<Block>; ++i) {
    out[i] = static_cast<uint8_t>(Integer(b, i) + IntegerRange<Block>::kOffset);
  }
}

// Bytes side by side, as GCC and Clang know them for every instruction set.
template <int Size>
struct ByteVector {
  typedef uint8_t Type __attribute__((vector_size(Size)));
};
template <int Size>
using Bytes = typename ByteVector<Size>::Type;
template <int Size>
inline Bytes<Size> LoadBytes(const uint8_t* p) {
  Bytes<Size> v;
  memcpy(&v, p, Size);
  return v;
}
template <class V>
inline void StoreBytes(V v, uint8_t* p) {
  memcpy(p, &v, sizeof(v));
}

template <int Size>
inline void ExpandNibbles(const uint8_t* qs, uint8_t* out) {
  const Bytes<Size> v = LoadBytes<Size>(qs);
  StoreBytes(v & 15, out);
  StoreBytes(v >> 4, out + Size);
}
// Adds bit i of qh, as 16, to value i.
inline void AddFifthBits(const uint8_t* qh, uint8_t* out) {
  constexpr Bytes<8> kBit = {1, 2, 4, 8, 16, 32, 64, 128};
  for (int i = 0; i < 4; ++i) {
    const Bytes<8> spread = Bytes<8>{} + qh[i];
    const Bytes<8> set = reinterpret_cast<Bytes<8>>((spread & kBit) == kBit);
    StoreBytes(LoadBytes<8>(out + 8 * i) | (set & 16), out + 8 * i);
  }
}
inline void ExpandValues(const BlockQ4_0& b, uint8_t* out) { ExpandNibbles<16>(b.qs, out); }
inline void ExpandValues(const BlockQ4_1& b, uint8_t* out) { ExpandNibbles<16>(b.qs, out); }
inline void ExpandValues(const BlockQ5_0& b, uint8_t* out) {
  ExpandNibbles<16>(b.qs, out);
  AddFifthBits(b.qh, out);
}
inline void ExpandValues(const BlockQ5_1& b, uint8_t* out) {
  ExpandNibbles<16>(b.qs, out);
  AddFifthBits(b.qh, out);
}
inline void ExpandValues(const BlockQ8_0& b, uint8_t* out) {
  StoreBytes(LoadBytes<32>(reinterpret_cast<const uint8_t*>(b.qs)) ^ 0x80, out);
}

// Two bits of each of 64 bytes: runs of 32 bytes, each four planes of values.
inline void ExpandTwoBits(const uint8_t* qs, uint8_t* out) {
  for (int run = 0; run < 2; ++run) {
    const Bytes<32> v = LoadBytes<32>(qs + run * 32);
    for (int plane = 0; plane < 4; ++plane)
      StoreBytes(v >> (2 * plane) & 3, out + run * 128 + plane * 32);
  }
}
inline void ExpandValues(const BlockQ2_K& b, uint8_t* out) { ExpandTwoBits(b.qs, out); }
inline void ExpandValues(const BlockTQ2_0& b, uint8_t* out) { ExpandTwoBits(b.qs, out); }
inline void ExpandValues(const BlockQ3_K& b, uint8_t* out) {
  ExpandTwoBits(b.qs, out);
  const Bytes<32> third = LoadBytes<32>(b.hmask);
  for (int plane = 0; plane < 8; ++plane) {
    StoreBytes(LoadBytes<32>(out + plane * 32) | (third >> plane & 1) << 2, out + plane * 32);
  }
}
inline void ExpandValues(const BlockQ4_K& b, uint8_t* out) {
  for (int run = 0; run < 4; ++run) ExpandNibbles<32>(b.qs + run * 32, out + run * 64);
}
inline void ExpandValues(const BlockQ5_K& b, uint8_t* out) {
  const Bytes<32> fifth = LoadBytes<32>(b.qh);
  for (int run = 0; run < 4; ++run) ExpandNibbles<32>(b.qs + run * 32, out + run * 64);
  for (int plane = 0; plane < 8; ++plane) {
    StoreBytes(LoadBytes<32>(out + plane * 32) | (fifth >> plane & 1) << 4, out + plane * 32);
  }
}
inline void ExpandValues(const BlockQ6_K& b, uint8_t* out) {
  for (int run = 0; run < 2; ++run) {
    for (int half = 0; half < 2; ++half) {
      const Bytes<32> low = LoadBytes<32>(b.ql + run * 64 + half * 32);
      StoreBytes(low & 15, out + run * 128 + half * 32);
      StoreBytes(low >> 4, out + run * 128 + 64 + half * 32);
    }
    const Bytes<32> high = LoadBytes<32>(b.qh + run * 32);
    for (int plane = 0; plane < 4; ++plane) {
      uint8_t* o = out + run * 128 + plane * 32;
      StoreBytes(LoadBytes<32>(o) | (high >> (2 * plane) & 3) << 4, o);
    }
  }
}

// ---- scales of super-blocks ---------------------------------------------------------------------

// Values that share a scale: 32 where all sub-block scales come in pairs.
template <class Block>
inline constexpr int kSubBlock = 16;
template <>
inline constexpr int kSubBlock<BlockQ4_K> = 32;
template <>
inline constexpr int kSubBlock<BlockQ5_K> = 32;
template <>
inline constexpr int kSubBlock<BlockIQ4_XS> = 32;
template <>
inline constexpr int kSubBlock<BlockIQ2_XXS> = 32;
template <>
inline constexpr int kSubBlock<BlockIQ3_XXS> = 32;
template <>
inline constexpr int kSubBlock<BlockIQ3_S> = 32;
template <>
inline constexpr int kSubBlock<BlockIQ1_S> = 32;

template <class Block>
inline void ExpandScales(const Block& b, int16_t* out) {
  for (int j = 0; j < 16; ++j) out[j] = static_cast<int16_t>(SubScale(b, j));
}
template <class Block>
inline void ExpandMins(const Block& b, int16_t* out) {
  for (int j = 0; j < 16; ++j) out[j] = static_cast<int16_t>(SubMin(b, j));
}
inline void ExpandScales(const BlockQ6_K& b, int16_t* out) {
  for (int j = 0; j < 16; ++j) out[j] = b.scales[j];
}

// Eight 6-bit numbers as bytes, each for two sub-blocks of 16.
inline void SpreadBytes(uint64_t bytes, int16_t* out) {
  for (int j = 0; j < 16; ++j) out[j] = static_cast<int16_t>(bytes >> (j / 2 * 8) & 255);
}
inline uint64_t KScaleBytes(const uint8_t* s) {
  const uint32_t high = (Load4(s + 8) & 0x0f0f0f0f) | (Load4(s) >> 2 & 0x30303030);
  return (Load4(s) & 0x3f3f3f3f) | static_cast<uint64_t>(high) << 32;
}
inline uint64_t KMinBytes(const uint8_t* s) {
  const uint32_t high = (Load4(s + 8) >> 4 & 0x0f0f0f0f) | (Load4(s + 4) >> 2 & 0x30303030);
  return (Load4(s + 4) & 0x3f3f3f3f) | static_cast<uint64_t>(high) << 32;
}
inline void ExpandScales(const BlockQ4_K& b, int16_t* out) {
  SpreadBytes(KScaleBytes(b.scales), out);
}
inline void ExpandScales(const BlockQ5_K& b, int16_t* out) {
  SpreadBytes(KScaleBytes(b.scales), out);
}
inline void ExpandMins(const BlockQ4_K& b, int16_t* out) { SpreadBytes(KMinBytes(b.scales), out); }
inline void ExpandMins(const BlockQ5_K& b, int16_t* out) { SpreadBytes(KMinBytes(b.scales), out); }

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
