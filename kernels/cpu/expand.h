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

inline void ExpandNibbles(const uint8_t* qs, int bytes, uint8_t* out) {
  for (int i = 0; i < bytes; ++i) out[i] = qs[i] & 15;
  for (int i = 0; i < bytes; ++i) out[bytes + i] = qs[i] >> 4;
}
inline void ExpandValues(const BlockQ4_0& b, uint8_t* out) { ExpandNibbles(b.qs, 16, out); }
inline void ExpandValues(const BlockQ4_1& b, uint8_t* out) { ExpandNibbles(b.qs, 16, out); }
inline void AddFifthBits(const uint8_t* qh, uint8_t* out) {
  for (int i = 0; i < 32; ++i) out[i] |= static_cast<uint8_t>((qh[i / 8] >> (i % 8) & 1) << 4);
}
inline void ExpandValues(const BlockQ5_0& b, uint8_t* out) {
  ExpandNibbles(b.qs, 16, out);
  AddFifthBits(b.qh, out);
}
inline void ExpandValues(const BlockQ5_1& b, uint8_t* out) {
  ExpandNibbles(b.qs, 16, out);
  AddFifthBits(b.qh, out);
}
inline void ExpandValues(const BlockQ8_0& b, uint8_t* out) {
  for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(b.qs[i] ^ 0x80);
}
inline void ExpandValues(const BlockQ2_K& b, uint8_t* out) {
  for (int run = 0; run < 2; ++run) {
    for (int plane = 0; plane < 4; ++plane) {
      for (int i = 0; i < 32; ++i)
        out[run * 128 + plane * 32 + i] = b.qs[run * 32 + i] >> (2 * plane) & 3;
    }
  }
}
inline void ExpandValues(const BlockTQ2_0& b, uint8_t* out) {
  for (int run = 0; run < 2; ++run) {
    for (int plane = 0; plane < 4; ++plane) {
      for (int i = 0; i < 32; ++i)
        out[run * 128 + plane * 32 + i] = b.qs[run * 32 + i] >> (2 * plane) & 3;
    }
  }
}
inline void ExpandValues(const BlockQ3_K& b, uint8_t* out) {
  for (int run = 0; run < 2; ++run) {
    for (int plane = 0; plane < 4; ++plane) {
      for (int i = 0; i < 32; ++i) {
        const int low = b.qs[run * 32 + i] >> (2 * plane) & 3;
        const int high = b.hmask[i] >> (run * 4 + plane) & 1;
        out[run * 128 + plane * 32 + i] = static_cast<uint8_t>(low | high << 2);
      }
    }
  }
}
inline void ExpandValues(const BlockQ4_K& b, uint8_t* out) {
  for (int run = 0; run < 4; ++run) ExpandNibbles(b.qs + run * 32, 32, out + run * 64);
}
inline void ExpandValues(const BlockQ5_K& b, uint8_t* out) {
  for (int run = 0; run < 4; ++run) {
    ExpandNibbles(b.qs + run * 32, 32, out + run * 64);
    for (int half = 0; half < 2; ++half) {
      uint8_t* o = out + run * 64 + half * 32;
      for (int i = 0; i < 32; ++i)
        o[i] |= static_cast<uint8_t>((b.qh[i] >> (2 * run + half) & 1) << 4);
    }
  }
}
inline void ExpandValues(const BlockQ6_K& b, uint8_t* out) {
  for (int run = 0; run < 2; ++run) {
    for (int plane = 0; plane < 4; ++plane) {
      const uint8_t* low = b.ql + run * 64 + plane % 2 * 32;
      const uint8_t* high = b.qh + run * 32;
      uint8_t* o = out + run * 128 + plane * 32;
      for (int i = 0; i < 32; ++i) {
        o[i] = static_cast<uint8_t>((low[i] >> (plane / 2 * 4) & 15) | (high[i] >> (2 * plane) & 3)
                                                                           << 4);
      }
    }
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
