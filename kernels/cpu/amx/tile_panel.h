// A panel's weights as tiles take them: a panel has four values of each of 16 rows side by side,
// which is just what a tile of weights is, so only bytes are made anew.
#pragma once

#include "kernels/cpu/panel_layout.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// Blocks of 32: signed weights, in `low`. Super-blocks: weights times their sub-block's scales,
// which fit 16 bits, as unsigned low and signed high bytes; a whole block then adds up in a tile,
// and its sum is that of `low` + 256 * that of `high`.
struct alignas(64) TilePanel {
  uint8_t low[kSteps][kPanelRows][4];
  uint8_t high[kSteps][kPanelRows][4];
};

typedef uint16_t Words32 __attribute__((vector_size(64)));

inline Words32 LoadWords32(const void* p) {
  Words32 v;
  memcpy(&v, p, sizeof(v));
  return v;
}

template <class Block>
inline void FillTilePanel(const Panel& p, int num_blocks, TilePanel& to) {
  constexpr uint8_t kOffset = IntegerRange<Block>::kOffset;
  for (int s = 0; s < num_blocks * kValues<Block> / 4; ++s) {
    if constexpr (kValues<Block> == 32) {
      StoreBytes(LoadBytes<64>(p.values[s][0]) - kOffset, to.low[s][0]);
    } else {
      constexpr int kSub = kSubBlock<Block>;
      const Words32 values = LoadWords32(p.values[s]);
      const Words32 scales = LoadWords32(p.scales[s * 4 / kSub * kSub / 16]);
      const Words32 even = ((values & 255) - kOffset) * scales;
      const Words32 odd = ((values >> 8) - kOffset) * scales;
      StoreBytes((even & 255) | odd << 8, to.low[s][0]);
      StoreBytes(even >> 8 | (odd & 0xff00), to.high[s][0]);
    }
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
