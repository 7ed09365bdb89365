// Blocks of weights as device_layout.h lays them out: 32 integers at a time as words of four signed
// bytes, ready for dp4a and mma, and the scales that belong to them.
//
// A type without a row here takes the integers of unpack.h one by one: correct, not fast.
#pragma once

#include "kernels/cuda/device_layout.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/unpack.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kSpan = 32;  // values that a thread takes at a time

template <class Block>
struct DeviceBlock {
  static constexpr BlockBody kBody = BodyOf(Block::kType);
  static constexpr int kRestBytes = static_cast<int>(sizeof(Block)) - kBody.bytes;

  const uint8_t* body;  // on a boundary of 16 bytes
  const uint8_t* rest;

  // The block as unpack.h knows it, as far as one of its two parts is asked for.
  __device__ const Block& InBody() const {
    return *reinterpret_cast<const Block*>(kBody.bytes == 0 ? rest : body - kBody.begin);
  }
  __device__ const Block& InRest() const {
    if (kRestBytes == 0) return InBody();
    return *reinterpret_cast<const Block*>(kBody.begin == 0 ? rest - kBody.bytes : rest);
  }
};

// A row of a weight matrix.
template <class Block>
struct DeviceRow {
  const uint8_t* bodies;
  const uint8_t* rests;

  __device__ DeviceRow(const uint8_t* row, int32_t blocks)
      : bodies(row), rests(row + int64_t{blocks} * DeviceBlock<Block>::kBody.bytes) {}
  __device__ DeviceBlock<Block> operator[](int32_t b) const {
    return {bodies + int64_t{b} * DeviceBlock<Block>::kBody.bytes,
            rests + int64_t{b} * DeviceBlock<Block>::kRestBytes};
  }
};

// What Words adds to each integer of a type, so that its bits need no sign.
template <class Block>
inline constexpr int kOffset = 0;
template <>
inline constexpr int kOffset<BlockQ4_0> = 8;
template <>
inline constexpr int kOffset<BlockQ5_0> = 16;
template <>
inline constexpr int kOffset<BlockQ3_K> = 4;
template <>
inline constexpr int kOffset<BlockQ6_K> = 32;

struct SpanWords {
  uint32_t w[8];  // values 4i to 4i + 3 of the span in w[i], the first in the lowest byte
};

__device__ inline uint4 LoadVector(const uint8_t* p) { return *reinterpret_cast<const uint4*>(p); }
// 32 bytes on a boundary of 16.
__device__ inline SpanWords LoadSpan(const uint8_t* p) {
  const uint4 a = LoadVector(p), b = LoadVector(p + 16);
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
// The nibbles of 16 bytes: low ones first.
__device__ inline SpanWords Nibbles(const uint8_t* p) {
  constexpr uint32_t kLow = 0x0f0f0f0f;
  const uint4 v = LoadVector(p);
  return {{v.x & kLow, v.y & kLow, v.z & kLow, v.w & kLow, v.x >> 4 & kLow, v.y >> 4 & kLow,
           v.z >> 4 & kLow, v.w >> 4 & kLow}};
}

// Four entries of a table of 16 bytes, chosen by the nibbles of 16 bits.
__device__ inline uint32_t LookUp(const uint32_t (&table)[4], uint32_t nibbles) {
  const uint32_t low = __byte_perm(table[0], table[1], nibbles & 0x7777);
  const uint32_t high = __byte_perm(table[2], table[3], nibbles & 0x7777);
  return __byte_perm(low, high, 0x3210 | (nibbles & 0x8888) >> 1);
}
__device__ inline SpanWords LookUpNibbles(const uint32_t (&table)[4], const uint8_t* p) {
  const uint4 v = LoadVector(p);
  const uint32_t in[4] = {v.x, v.y, v.z, v.w};
  SpanWords out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t first = LookUp(table, in[i] & 0xffff), second = LookUp(table, in[i] >> 16);
    out.w[i] = __byte_perm(first, second, 0x6420);
    out.w[i + 4] = __byte_perm(first, second, 0x7531);
  }
  return out;
}
__device__ inline SpanWords LookUpIq4(const uint8_t* p) {  // Iq4Value
  constexpr uint32_t kTable[4] = {0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535};
  return LookUpNibbles(kTable, p);
}

// Span `span` of a block: its integers plus kOffset.
template <class Block>
__device__ inline SpanWords Words(const DeviceBlock<Block>& b, int span) {
  const Block& block = b.InBody();
  SpanWords out;
  for (int i = 0; i < 8; ++i) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
      word |= (static_cast<uint32_t>(Integer(block, span * kSpan + i * 4 + j)) & 255) << (8 * j);
    }
    out.w[i] = word;
  }
  return out;
}

__device__ inline SpanWords Words(const DeviceBlock<BlockQ4_0>& b, int) { return Nibbles(b.body); }
__device__ inline SpanWords Words(const DeviceBlock<BlockQ4_1>& b, int) { return Nibbles(b.body); }
__device__ inline SpanWords Words(const DeviceBlock<BlockQ8_0>& b, int) { return LoadSpan(b.body); }
__device__ inline SpanWords Words(const DeviceBlock<BlockIQ4_NL>& b, int) {
  return LookUpIq4(b.body);
}
__device__ inline SpanWords Words(const DeviceBlock<BlockMXFP4>& b, int) {  // Fp4Value
  constexpr uint32_t kTable[4] = {0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc};
  return LookUpNibbles(kTable, b.body);
}
// With the fifth bits: bit i of `high` is that of value i.
__device__ inline SpanWords NibblesWithBits(const uint8_t* p, uint32_t high) {
  SpanWords out = Nibbles(p);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t four = high >> (4 * i) & 15;
    out.w[i] |= (four * 0x00204081 & 0x01010101) << 4;  // one bit to each byte
  }
  return out;
}
__device__ inline SpanWords Words(const DeviceBlock<BlockQ5_0>& b, int) {
  return NibblesWithBits(b.body, Load4(b.InRest().qh));
}
__device__ inline SpanWords Words(const DeviceBlock<BlockQ5_1>& b, int) {
  return NibblesWithBits(b.body, Load4(b.InRest().qh));
}

// Plane `plane` of `Bits` bits of 32 bytes.
template <int Bits>
__device__ inline SpanWords PlaneWords(const uint8_t* p, int plane) {
  constexpr uint32_t kMask = 0x01010101u * ((1 << Bits) - 1);
  SpanWords out = LoadSpan(p);
#pragma unroll
  for (uint32_t& w : out.w) w = w >> (plane * Bits) & kMask;
  return out;
}
// low + (high << shift), byte by byte.
__device__ inline SpanWords Joined(SpanWords low, const SpanWords& high, int shift) {
#pragma unroll
  for (int i = 0; i < 8; ++i) low.w[i] |= high.w[i] << shift;
  return low;
}
__device__ inline SpanWords Words(const DeviceBlock<BlockQ2_K>& b, int span) {
  return PlaneWords<2>(b.body + 16 + span / 4 * 32, span % 4);
}
__device__ inline SpanWords Words(const DeviceBlock<BlockQ3_K>& b, int span) {
  return Joined(PlaneWords<2>(b.body + 32 + span / 4 * 32, span % 4), PlaneWords<1>(b.body, span),
                2);
}
__device__ inline SpanWords Words(const DeviceBlock<BlockQ4_K>& b, int span) {
  return PlaneWords<4>(b.body + 16 + span / 2 * 32, span % 2);
}
__device__ inline SpanWords Words(const DeviceBlock<BlockQ5_K>& b, int span) {
  return Joined(PlaneWords<4>(b.body + 48 + span / 2 * 32, span % 2),
                PlaneWords<1>(b.body + 16, span), 4);
}
__device__ inline SpanWords Words(const DeviceBlock<BlockQ6_K>& b, int span) {
  const int half = span / 4, plane = span % 4;
  return Joined(PlaneWords<4>(b.body + half * 64 + plane % 2 * 32, plane / 2),
                PlaneWords<2>(b.body + 128 + half * 32, plane), 4);
}
__device__ inline SpanWords Words(const DeviceBlock<BlockIQ4_XS>& b, int span) {
  return LookUpIq4(b.body + span * 16);
}

// ---- scales -------------------------------------------------------------------------------------

template <class Block>
__device__ inline float BlockScale(const DeviceBlock<Block>& b) {
  return Scale(b.InRest());
}
template <class Block>
__device__ inline float BlockMin(const DeviceBlock<Block>& b) {
  if constexpr (HasMin<Block>) {
    return Min(b.InRest());
  } else {
    return 0;
  }
}

// Scale and min of the two runs of 16 values of a span of a super-block.
struct SubScales {
  int scale[2];
  int min[2];
};
template <class Block>
inline constexpr bool kSubScalesInRest =
    DeviceBlock<Block>::kRestBytes > 2 && Block::kType != QuantType::kQ2_K;
template <class Block>
__device__ inline SubScales SubScalesOf(const DeviceBlock<Block>& b, int span) {
  const Block& block = kSubScalesInRest<Block> ? b.InRest() : b.InBody();
  SubScales s = {};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    s.scale[h] = SubScale(block, span * 2 + h);
    if constexpr (HasMin<Block>) s.min[h] = SubMin(block, span * 2 + h);
  }
  return s;
}
// KScale and KMin of the 12 bytes behind d and dmin, by words.
__device__ inline SubScales KSubScales(const uint8_t* body, int span) {
  const uint4 head = LoadVector(body);
  const int shift = span % 4 * 8;
  const uint32_t a = head.y >> shift & 255, b = head.z >> shift & 255, c = head.w >> shift & 255;
  const int scale = static_cast<int>(span < 4 ? a & 63 : (c & 15) | a >> 6 << 4);
  const int min = static_cast<int>(span < 4 ? b & 63 : c >> 4 | b >> 6 << 4);
  return {{scale, scale}, {min, min}};
}
__device__ inline SubScales SubScalesOf(const DeviceBlock<BlockQ4_K>& b, int span) {
  return KSubScales(b.body, span);
}
__device__ inline SubScales SubScalesOf(const DeviceBlock<BlockQ5_K>& b, int span) {
  return KSubScales(b.body, span);
}

// Whether the 32 values of a span share their scale.
template <class Block>
inline constexpr bool kScaleOfSpan =
    Block::kType == QuantType::kQ4_K || Block::kType == QuantType::kQ5_K ||
    Block::kType == QuantType::kIQ4_XS;

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
