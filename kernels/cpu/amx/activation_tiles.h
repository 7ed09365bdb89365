// Up to 32 activation rows of a chunk, as two tiles.
#pragma once

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/panel_layout.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kRowsAbreast = 2 * kTileRows;

struct ActivationTiles {
  // Where a tile's rows lie: in place, or gathered where they don't lie evenly or are too few.
  struct Tile {
    const int8_t* values;
    int64_t stride;
  };
  int rows;  // that count; the second tile is used if they are more than 16
  Tile tiles[2];
  const float* scales[kRowsAbreast];
  const int16_t* sums[kRowsAbreast];  // of 16 values
  alignas(64) int8_t gathered[kRowsAbreast][kChunk];

  int RowsOf(int tile) const {  // at most 0: none
    const int left = rows - tile * kTileRows;
    return left < kTileRows ? left : kTileRows;
  }
};

// Rows [first, first + present) as a tile; the last stands for those that it lacks, and nobody
// reads their sums.
inline ActivationTiles::Tile TileOf(const MatMulArgs& a, int32_t first, int present, int32_t k,
                                    int bytes, int8_t (*gathered)[kChunk]) {
  const auto values = [&](int row) {
    return a.rounded.values + XRow(a, first + row) * a.rounded.stride + k;
  };
  if (a.x_rows == nullptr && present == kTileRows) return {values(0), a.rounded.stride};
  for (int t = 0; t < kTileRows; ++t)
    memcpy(gathered[t], values(t < present ? t : present - 1), bytes);
  return {gathered[0], kChunk};
}

template <class Block>
inline void TakeRows(const MatMulArgs& a, int32_t first, int rows, int32_t k, int num_blocks,
                     ActivationTiles& to) {
  constexpr int kGroup = kValues<Block>;
  to.rows = rows;
  for (int t = 0; t < rows; ++t) {
    const int64_t x = XRow(a, first + t);
    to.scales[t] = a.rounded.scales + x * (a.cols / kGroup) + k / kGroup;
    to.sums[t] = a.rounded.sums + x * (a.cols / 16) + k / 16;
  }
  for (int tile = 0; tile < 2 && to.RowsOf(tile) > 0; ++tile) {
    const int before = tile * kTileRows;
    to.tiles[tile] =
        TileOf(a, first + before, to.RowsOf(tile), k, num_blocks * kGroup, to.gathered + before);
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
