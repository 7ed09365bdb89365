// Quantized blocks as GGUF files hold them: little-endian, packed, at any address that the file
// gives (2-byte aligned at best, so multi-byte fields are read through functions). Names follow the
// format's own. What the bits mean stands in unpack.h.
#pragma once

#include <cstdint>

#include "kernels/quant_types.h"

namespace baton::kernels {

// A 16-bit number that may lie at an odd address.
struct Bytes2 {
  uint8_t bytes[2];
};

// ---- blocks of 32: value = d * q (+ m) ----------------------------------------------------------

struct BlockQ4_0 {
  static constexpr QuantType kType = QuantType::kQ4_0;
  Bytes2 d;        // f16
  uint8_t qs[16];  // value j in the low nibble of byte j, value j + 16 in its high nibble
};
struct BlockQ4_1 {
  static constexpr QuantType kType = QuantType::kQ4_1;
  Bytes2 d, m;     // f16
  uint8_t qs[16];  // as Q4_0
};
struct BlockQ5_0 {
  static constexpr QuantType kType = QuantType::kQ5_0;
  Bytes2 d;
  uint8_t qh[4];   // the fifth bit of value i is bit i
  uint8_t qs[16];  // as Q4_0
};
struct BlockQ5_1 {
  static constexpr QuantType kType = QuantType::kQ5_1;
  Bytes2 d, m;
  uint8_t qh[4];
  uint8_t qs[16];
};
struct BlockQ8_0 {
  static constexpr QuantType kType = QuantType::kQ8_0;
  Bytes2 d;
  int8_t qs[32];
};
struct BlockIQ4_NL {
  static constexpr QuantType kType = QuantType::kIQ4_NL;
  Bytes2 d;
  uint8_t qs[16];  // nibbles as Q4_0, indices of kIq4Values
};
struct BlockMXFP4 {
  static constexpr QuantType kType = QuantType::kMXFP4;
  uint8_t e;       // E8M0: 2^(e - 127)
  uint8_t qs[16];  // nibbles as Q4_0, indices of kFp4Values
};

// ---- super-blocks of 256 ------------------------------------------------------------------------

struct BlockQ2_K {
  static constexpr QuantType kType = QuantType::kQ2_K;
  uint8_t scales[16];  // scale (low nibble) and min (high nibble) of 16 values
  uint8_t qs[64];      // 2 bits each
  Bytes2 d, dmin;
};
struct BlockQ3_K {
  static constexpr QuantType kType = QuantType::kQ3_K;
  uint8_t hmask[32];   // the third bit; clear means - 4
  uint8_t qs[64];      // the low 2 bits
  uint8_t scales[12];  // 16 scales of 6 bits
  Bytes2 d;
};
struct BlockQ4_K {
  static constexpr QuantType kType = QuantType::kQ4_K;
  Bytes2 d, dmin;
  uint8_t scales[12];  // 8 scales and 8 mins of 6 bits
  uint8_t qs[128];
};
struct BlockQ5_K {
  static constexpr QuantType kType = QuantType::kQ5_K;
  Bytes2 d, dmin;
  uint8_t scales[12];  // as Q4_K
  uint8_t qh[32];      // the fifth bit
  uint8_t qs[128];
};
struct BlockQ6_K {
  static constexpr QuantType kType = QuantType::kQ6_K;
  uint8_t ql[128];    // the low 4 bits
  uint8_t qh[64];     // the high 2 bits
  int8_t scales[16];  // of 16 values
  Bytes2 d;
};
struct BlockIQ4_XS {
  static constexpr QuantType kType = QuantType::kIQ4_XS;
  Bytes2 d;
  Bytes2 scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};
struct BlockIQ2_XXS {
  static constexpr QuantType kType = QuantType::kIQ2_XXS;
  Bytes2 d;
  uint8_t qs[64];  // per 32 values: 4 grid indices, then 4 x 7 bits of signs and a scale of 4 bits
};
struct BlockIQ2_XS {
  static constexpr QuantType kType = QuantType::kIQ2_XS;
  Bytes2 d;
  Bytes2 qs[32];  // per 8 values: grid index (9 bits), signs (7 bits)
  uint8_t scales[8];
};
struct BlockIQ2_S {
  static constexpr QuantType kType = QuantType::kIQ2_S;
  Bytes2 d;
  uint8_t qs[32];     // low 8 bits of the grid index of 8 values
  uint8_t signs[32];  // a bit a value
  uint8_t qh[8];      // high 2 bits of four grid indices
  uint8_t scales[8];
};
struct BlockIQ3_XXS {
  static constexpr QuantType kType = QuantType::kIQ3_XXS;
  Bytes2 d;
  uint8_t qs[64];     // grid index of 4 values
  uint8_t signs[32];  // per 32 values: 4 x 7 bits of signs and a scale of 4 bits
};
struct BlockIQ3_S {
  static constexpr QuantType kType = QuantType::kIQ3_S;
  Bytes2 d;
  uint8_t qs[64];  // low 8 bits of the grid index of 4 values
  uint8_t qh[8];   // ninth bits
  uint8_t signs[32];
  uint8_t scales[4];
};
struct BlockIQ1_S {
  static constexpr QuantType kType = QuantType::kIQ1_S;
  Bytes2 d;
  uint8_t qs[32];  // low 8 bits of the grid index of 8 values
  Bytes2 qh[8];    // per 32 values: 4 x 3 high bits, a scale of 3 bits, the sign of delta
};
struct BlockIQ1_M {
  static constexpr QuantType kType = QuantType::kIQ1_M;
  uint8_t qs[32];
  uint8_t qh[16];    // per 8 values: 3 high bits and the sign of delta
  Bytes2 scales[4];  // 16 scales of 3 bits; their top nibbles make the f16 d
};
struct BlockTQ1_0 {
  static constexpr QuantType kType = QuantType::kTQ1_0;
  uint8_t qs[48];  // 5 ternary digits a byte
  uint8_t qh[4];   // 4 ternary digits a byte
  Bytes2 d;
};
struct BlockTQ2_0 {
  static constexpr QuantType kType = QuantType::kTQ2_0;
  uint8_t qs[64];
  Bytes2 d;
};

// ---- single values ------------------------------------------------------------------------------

struct BlockF32 {
  static constexpr QuantType kType = QuantType::kF32;
  uint8_t bytes[4];
};
struct BlockF16 {
  static constexpr QuantType kType = QuantType::kF16;
  Bytes2 bits;
};
struct BlockBF16 {
  static constexpr QuantType kType = QuantType::kBF16;
  Bytes2 bits;
};

// Every block type that has a kernel: BATON_FOR_EACH_BLOCK(X) calls X(BlockQ4_0) and so on.
#define BATON_FOR_EACH_FLOAT_BLOCK(X) X(BlockF32) X(BlockF16) X(BlockBF16)
#define BATON_FOR_EACH_BLOCK32(X) \
  X(BlockQ4_0) X(BlockQ4_1) X(BlockQ5_0) X(BlockQ5_1) X(BlockQ8_0) X(BlockIQ4_NL) X(BlockMXFP4)
#define BATON_FOR_EACH_SUPER_BLOCK(X)                                                        \
  X(BlockQ2_K)                                                                               \
  X(BlockQ3_K) X(BlockQ4_K) X(BlockQ5_K) X(BlockQ6_K) X(BlockIQ4_XS) X(BlockIQ2_XXS)         \
      X(BlockIQ2_XS) X(BlockIQ2_S) X(BlockIQ3_XXS) X(BlockIQ3_S) X(BlockIQ1_S) X(BlockIQ1_M) \
          X(BlockTQ1_0) X(BlockTQ2_0)
#define BATON_FOR_EACH_BLOCK(X) \
  BATON_FOR_EACH_FLOAT_BLOCK(X) BATON_FOR_EACH_BLOCK32(X) BATON_FOR_EACH_SUPER_BLOCK(X)

#define BATON_CHECK_BLOCK(Block)                                      \
  static_assert(sizeof(Block) == TraitsOf(Block::kType).block_bytes); \
  static_assert(alignof(Block) == 1);
BATON_FOR_EACH_BLOCK(BATON_CHECK_BLOCK)
#undef BATON_CHECK_BLOCK

}  // namespace baton::kernels
