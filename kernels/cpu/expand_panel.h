// The values of 16 rows at once: bytes of blocks are transposed as they lie, and expanded
// afterwards, where a register has the same bytes of many rows. For types whose bytes stand for
// values by shifts and masks alone; the others are expanded row by row (panel.h).
#pragma once

#include "kernels/cpu/panel_layout.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// Bytes of a block of each row, transposed: one word of all rows after another.
template <int Words>
struct alignas(64) RawWords {
  static constexpr int kBytes = Words * kPanelRows * 4;
  uint8_t bytes[kBytes];

  RawWords(const uint8_t* first_row, int64_t row_bytes) {
    TransposeWords(first_row, row_bytes, Words, bytes);
  }
  Bytes<32> At(int i) const { return LoadBytes<32>(bytes + i); }
};

template <int Words>
inline void StoreNibbles(const RawWords<Words>& raw, uint8_t* low, uint8_t* high) {
  for (int i = 0; i < raw.kBytes; i += 32) {
    StoreBytes(raw.At(i) & 15, low + i);
    StoreBytes(raw.At(i) >> 4, high + i);
  }
}

// ExpandPanel(blocks, row_bytes, b, panel): the values of block b of a chunk, in 16 rows.
inline void ExpandNibbleBlock(const uint8_t* qs, int64_t row_bytes, int b, Panel& p) {
  StoreNibbles(RawWords<4>(qs, row_bytes), p.values[8 * b][0], p.values[8 * b + 4][0]);
}
inline void ExpandPanel(const BlockQ4_0& first, int64_t row_bytes, int b, Panel& p) {
  ExpandNibbleBlock(first.qs, row_bytes, b, p);
}
inline void ExpandPanel(const BlockQ4_1& first, int64_t row_bytes, int b, Panel& p) {
  ExpandNibbleBlock(first.qs, row_bytes, b, p);
}
inline void ExpandPanel(const BlockQ8_0& first, int64_t row_bytes, int b, Panel& p) {
  using Traits = PanelTraits<BlockQ8_0>;
  const RawWords<8> raw(reinterpret_cast<const uint8_t*>(first.qs), row_bytes);
  for (int i = 0; i < raw.kBytes; i += 32) {
    StoreBytes(Traits::kFlipSign ? raw.At(i) : raw.At(i) ^ 0x80, p.values[8 * b][0] + i);
  }
}
inline void ExpandPanel(const BlockQ4_K& first, int64_t row_bytes, int, Panel& p) {
  for (int run = 0; run < 4; ++run) {
    StoreNibbles(RawWords<8>(first.qs + run * 32, row_bytes), p.values[16 * run][0],
                 p.values[16 * run + 8][0]);
  }
}
inline void ExpandPanel(const BlockQ5_K& first, int64_t row_bytes, int, Panel& p) {
  const RawWords<8> fifth(first.qh, row_bytes);
  for (int run = 0; run < 4; ++run) {
    const RawWords<8> raw(first.qs + run * 32, row_bytes);
    for (int i = 0; i < raw.kBytes; i += 32) {
      const Bytes<32> bits = fifth.At(i) >> (2 * run);
      StoreBytes((raw.At(i) & 15) | (bits & 1) << 4, p.values[16 * run][0] + i);
      StoreBytes(raw.At(i) >> 4 | (bits >> 1 & 1) << 4, p.values[16 * run + 8][0] + i);
    }
  }
}
inline void ExpandPanel(const BlockQ6_K& first, int64_t row_bytes, int, Panel& p) {
  for (int run = 0; run < 2; ++run) {
    const RawWords<16> low(first.ql + run * 64, row_bytes);
    const RawWords<8> high(first.qh + run * 32, row_bytes);
    for (int i = 0; i < high.kBytes; i += 32) {
      const Bytes<32> l0 = low.At(i), l1 = low.At(high.kBytes + i), h = high.At(i);
      const Bytes<32> planes[4] = {(l0 & 15) | (h & 3) << 4, (l1 & 15) | (h >> 2 & 3) << 4,
                                   l0 >> 4 | (h & 0x30), l1 >> 4 | (h >> 2 & 0x30)};
      for (int plane = 0; plane < 4; ++plane)
        StoreBytes(planes[plane], p.values[32 * run + 8 * plane][0] + i);
    }
  }
}

template <class Block>
concept ExpandsInPanel = requires(const Block& b, Panel& p) {
  ExpandPanel(b, int64_t{}, 0, p);
};

// ---- scales of super-blocks ---------------------------------------------------------------------

typedef uint32_t Words8 __attribute__((vector_size(32)));  // one of eight rows each

inline Words8 LoadWords(const uint8_t* p) {
  Words8 v;
  memcpy(&v, p, sizeof(v));
  return v;
}
// A pair of 16-bit numbers for each row.
inline void StorePairs(Words8 low, Words8 high, int16_t* to) {
  const Words8 pairs = (low & 0xffff) | high << 16;
  memcpy(to, &pairs, sizeof(pairs));
}

// ExpandScalesInPanel(blocks, row_bytes, panel): what UnpackRowScales says of 16 rows.
template <class Block>
inline void ExpandKScales(const Block& first, int64_t row_bytes, Panel& p) {
  // d and dmin, then the 12 bytes of KScaleBytes and KMinBytes, as four words of each row.
  const auto* start = reinterpret_cast<const uint8_t*>(&first);
  const RawWords<4> head(start, row_bytes);
  for (int r = 0; r < kPanelRows; ++r) {
    const auto& block = *reinterpret_cast<const Block*>(start + r * row_bytes);
    p.d[0][r] = Scale(block);
    p.dmin[0][r] = Min(block);
  }
  for (int r = 0; r < kPanelRows; r += 8) {
    const auto word = [&](int w) { return LoadWords(head.bytes + (w * kPanelRows + r) * 4); };
    const Words8 u0 = word(1), u1 = word(2), u2 = word(3);
    const Words8 scales[2] = {u0 & 0x3f3f3f3f, (u2 & 0x0f0f0f0f) | (u0 >> 2 & 0x30303030)};
    const Words8 mins[2] = {u1 & 0x3f3f3f3f, (u2 >> 4 & 0x0f0f0f0f) | (u1 >> 2 & 0x30303030)};
    for (int j = 0; j < 8; ++j) {  // sub-blocks of 32, which are two of 16
      const Words8 scale = scales[j / 4] >> (j % 4 * 8) & 255,
                   min = mins[j / 4] >> (j % 4 * 8) & 255;
      StorePairs(scale, scale, p.scales[2 * j][r]);
      StorePairs(min, min, p.mins[j][r]);
    }
  }
}
inline void ExpandScalesInPanel(const BlockQ4_K& first, int64_t row_bytes, Panel& p) {
  ExpandKScales(first, row_bytes, p);
}
inline void ExpandScalesInPanel(const BlockQ5_K& first, int64_t row_bytes, Panel& p) {
  ExpandKScales(first, row_bytes, p);
}
inline void ExpandScalesInPanel(const BlockQ6_K& first, int64_t row_bytes, Panel& p) {
  const RawWords<4> raw(reinterpret_cast<const uint8_t*>(first.scales), row_bytes);
  const auto* start = reinterpret_cast<const uint8_t*>(&first);
  for (int r = 0; r < kPanelRows; ++r)
    p.d[0][r] = Scale(*reinterpret_cast<const BlockQ6_K*>(start + r * row_bytes));
  typedef int32_t Ints8 __attribute__((vector_size(32)));
  for (int r = 0; r < kPanelRows; r += 8) {
    Words8 before = {};
    for (int j = 0; j < 16; ++j) {
      const Words8 word = LoadWords(raw.bytes + (j / 4 * kPanelRows + r) * 4);
      const auto scale =
          reinterpret_cast<Words8>(reinterpret_cast<Ints8>(word << (24 - j % 4 * 8)) >> 24);
      StorePairs(scale, scale, p.scales[j][r]);
      const Words8 min = -static_cast<uint32_t>(PanelTraits<BlockQ6_K>::kOffset) * scale;
      if (j % 2 == 1) StorePairs(before, min, p.mins[j / 2][r]);
      before = min;
    }
  }
}

template <class Block>
concept ExpandsScalesInPanel = requires(const Block& b, Panel& p) {
  ExpandScalesInPanel(b, int64_t{}, p);
};

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
