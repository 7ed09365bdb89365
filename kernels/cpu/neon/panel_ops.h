// How NEON with the dot product multiplies a panel: signed bytes by activations, four products into
// 32 bits. Four registers hold the 16 rows.
#pragma once

#include <arm_neon.h>

#include <type_traits>

#include "kernels/cpu/panel_layout.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class Block>
struct PanelTraits {
  static constexpr bool kSuper = kValues<Block> == 256;
  static constexpr bool kFlipSign =
      IntegerRange<Block>::kLargest > 127;  // bytes are signed: 128 less
  static constexpr int kOffset = IntegerRange<Block>::kOffset - (kFlipSign ? 128 : 0);
  static constexpr int kTileRows = 4;
};

inline constexpr int kQuarters = kPanelRows / 4;  // registers of 4 rows

// `words` words of four bytes from each of 16 rows, `stride` bytes apart: word by word, row by row.
inline void TransposeWords(const uint8_t* rows, int64_t stride, int words, uint8_t* out) {
  for (int q = 0; q < kQuarters; ++q, rows += 4 * stride, out += 16) {
    for (int w = 0; w < words; w += 4) {
      const auto load = [&](int row) {
        return vreinterpretq_u32_u8(vld1q_u8(rows + row * stride + 4 * w));
      };
      const uint32x4_t r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
      const uint64x2_t a = vreinterpretq_u64_u32(vzip1q_u32(r0, r1)),
                       b = vreinterpretq_u64_u32(vzip1q_u32(r2, r3));
      const uint64x2_t c = vreinterpretq_u64_u32(vzip2q_u32(r0, r1)),
                       d = vreinterpretq_u64_u32(vzip2q_u32(r2, r3));
      const auto store = [&](int i, uint64x2_t v) {
        vst1q_u8(out + (w + i) * 4 * kPanelRows, vreinterpretq_u8_u64(v));
      };
      store(0, vzip1q_u64(a, b));
      store(1, vzip2q_u64(a, b));
      store(2, vzip1q_u64(c, d));
      store(3, vzip2q_u64(c, d));
    }
  }
}

template <int Rows>
using TileSums = int32x4_t[Rows][kQuarters];

// Sums of four steps (16 values) of weights times activations, added to `sums`.
template <int Rows>
inline void AddFourSteps(const uint8_t (*w)[kPanelRows][4], const int8_t* const* a, int k,
                         TileSums<Rows>& sums) {
  int8x16_t x[Rows];
  for (int t = 0; t < Rows; ++t) x[t] = vld1q_s8(a[t] + k);
  const auto step = [&]<int S>(std::integral_constant<int, S>) {
    for (int q = 0; q < kQuarters; ++q) {
      const int8x16_t weights = vld1q_s8(reinterpret_cast<const int8_t*>(w[S][4 * q]));
      for (int t = 0; t < Rows; ++t) sums[t][q] = vdotq_laneq_s32(sums[t][q], weights, x[t], S);
    }
  };
  step(std::integral_constant<int, 0>());
  step(std::integral_constant<int, 1>());
  step(std::integral_constant<int, 2>());
  step(std::integral_constant<int, 3>());
}

inline void AddTerm(float scale, float32x4_t term, float* acc) {
  vst1q_f32(acc, vfmaq_f32(vld1q_f32(acc), vdupq_n_f32(scale), term));
}

template <class Block, int Rows>
inline void AddBlocks32(const Panel& p, int num_blocks, const TileRows<Rows>& tile) {
  constexpr int kOffset = PanelTraits<Block>::kOffset;
  for (int b = 0; b < num_blocks; ++b) {
    TileSums<Rows> sums;
    float activation_sums[Rows];
    for (int t = 0; t < Rows; ++t) {
      const int sum = tile.sums[t][2 * b] + tile.sums[t][2 * b + 1];
      activation_sums[t] = static_cast<float>(sum);
      for (int32x4_t& s : sums[t]) s = vdupq_n_s32(-kOffset * sum);
    }
    AddFourSteps<Rows>(p.values + b * 8, tile.values, b * 32, sums);
    AddFourSteps<Rows>(p.values + b * 8 + 4, tile.values, b * 32 + 16, sums);
    for (int q = 0; q < kQuarters; ++q) {
      const float32x4_t d = vld1q_f32(p.d[b] + 4 * q);
      for (int t = 0; t < Rows; ++t) {
        const float32x4_t s = vcvtq_f32_s32(sums[t][q]);
        float32x4_t term;
        if constexpr (HasMin<Block>) {
          const float32x4_t mins =
              vmulq_f32(vld1q_f32(p.dmin[b] + 4 * q), vdupq_n_f32(activation_sums[t]));
          term = vfmaq_f32(mins, d, s);
        } else {
          term = vmulq_f32(d, s);
        }
        AddTerm(tile.scales[t][b], term, tile.acc[t] + 4 * q);
      }
    }
  }
}

// sum over sub-blocks of min * sum of activations, for 4 rows
inline int32x4_t MinSums(const Panel& p, int q, const int16_t* sums) {
  int32x4_t total = vdupq_n_s32(0);
  for (int i = 0; i < 8; ++i) {
    const int16x8_t mins = vld1q_s16(p.mins[i][4 * q]);
    const int16x4_t pair =
        vreinterpret_s16_s32(vld1_dup_s32(reinterpret_cast<const int32_t*>(sums + 2 * i)));
    const int32x4_t low = vmull_s16(vget_low_s16(mins), pair),
                    high = vmull_s16(vget_high_s16(mins), pair);
    total = vaddq_s32(total, vpaddq_s32(low, high));
  }
  return total;
}

template <class Block, int Rows>
inline void AddSuperBlock(const Panel& p, const TileRows<Rows>& tile) {
  constexpr int kSub = kSubBlock<Block>;
  TileSums<Rows> sums;
  for (auto& row : sums) {
    for (int32x4_t& s : row) s = vdupq_n_s32(0);
  }
  for (int j = 0; j < kChunk / kSub; ++j) {
    TileSums<Rows> dots;
    for (auto& row : dots) {
      for (int32x4_t& dot : row) dot = vdupq_n_s32(0);
    }
    for (int i = 0; i < kSub / 16; ++i) {
      AddFourSteps<Rows>(p.values + j * kSub / 4 + 4 * i, tile.values, j * kSub + 16 * i, dots);
    }
    for (int q = 0; q < kQuarters; ++q) {
      const int32x4_t doubled =
          vld1q_s32(reinterpret_cast<const int32_t*>(p.scales[j * kSub / 16][4 * q]));
      const int32x4_t scale = vshrq_n_s32(doubled, 16);
      for (int t = 0; t < Rows; ++t) sums[t][q] = vmlaq_s32(sums[t][q], dots[t][q], scale);
    }
  }
  for (int q = 0; q < kQuarters; ++q) {
    const float32x4_t d = vld1q_f32(p.d[0] + 4 * q);
    for (int t = 0; t < Rows; ++t) {
      const int32x4_t mins = MinSums(p, q, tile.sums[t]);
      float32x4_t term;
      if constexpr (HasMin<Block>) {
        const float32x4_t z = vmulq_f32(vld1q_f32(p.dmin[0] + 4 * q), vcvtq_f32_s32(mins));
        term = vfmaq_f32(vnegq_f32(z), d, vcvtq_f32_s32(sums[t][q]));
      } else {
        term = vmulq_f32(d, vcvtq_f32_s32(vaddq_s32(sums[t][q], mins)));
      }
      AddTerm(tile.scales[t][0], term, tile.acc[t] + 4 * q);
    }
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
