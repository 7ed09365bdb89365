// How AMX multiplies panels: tiles of 16 activation rows by tiles of 16 weight rows. Sums go
// through memory to AVX-512, which makes floats of them as its own kernels do (avx512/panel_ops.h,
// which comes first).
#pragma once

#include "kernels/cpu/amx/activation_tiles.h"
#include "kernels/cpu/amx/tile_panel.h"
#include "kernels/cpu/panel.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// A step multiplies two blocks of 32, or one super-block, by the activation tiles.
template <class Block>
inline constexpr int kBlocksAStep = kValues<Block> == 32 ? 2 : 1;
// The values that a product of tiles adds up.
template <class Block>
inline constexpr int kTileStep = kValues<Block> == 32 ? 32 : 64;

// The sums of a step. Those of activation tile i and block j, or plane j of a super-block, are at
// [2 * i + j].
struct alignas(64) StepSums {
  int32_t tiles[4][kTileRows][kPanelRows];
};

inline constexpr int64_t kSumsStride = kPanelRows * sizeof(int32_t);
inline constexpr int64_t kWeightsStride = sizeof(TilePanel::low[0]);

// Block b, which is the step's block I, times one activation tile.
template <int I, int Tile>
inline void MultiplyBlock32(const ActivationTiles& x, int b, StepSums& sums) {
  constexpr int kSums = 2 * Tile + I;
  ZeroTile<kSums>();
  LoadTile<4 + Tile>(x.tiles[Tile].values + 32 * b, x.tiles[Tile].stride);
  AddSignedProducts<kSums, 4 + Tile, 6 + I>();
  StoreTile<kSums>(sums.tiles[kSums], kSumsStride);
}
template <int I>
inline void MultiplyBlock32(const TilePanel& w, const ActivationTiles& x, int b, StepSums& sums) {
  LoadTile<6 + I>(w.low[8 * b], kWeightsStride);
  MultiplyBlock32<I, 0>(x, b, sums);
  if (x.rows > kTileRows) MultiplyBlock32<I, 1>(x, b, sums);
}

// 64 values of both planes times one activation tile.
template <int Tile>
inline void AddPlanes(const ActivationTiles& x, int k) {
  LoadTile<4 + Tile>(x.tiles[Tile].values + k, x.tiles[Tile].stride);
  AddUnsignedProducts<2 * Tile, 4 + Tile, 6>();
  AddSignedProducts<2 * Tile + 1, 4 + Tile, 7>();
}
inline void MultiplySuperBlock(const TilePanel& w, const ActivationTiles& x, StepSums& sums) {
  const bool two = x.rows > kTileRows;
  ZeroTile<0>();
  ZeroTile<1>();
  ZeroTile<2>();
  ZeroTile<3>();
  for (int k = 0; k < kChunk; k += kTileRowBytes) {
    LoadTile<6>(w.low[k / 4], kWeightsStride);
    LoadTile<7>(w.high[k / 4], kWeightsStride);
    AddPlanes<0>(x, k);
    if (two) AddPlanes<1>(x, k);
  }
  StoreTile<0>(sums.tiles[0], kSumsStride);
  StoreTile<1>(sums.tiles[1], kSumsStride);
  if (!two) return;
  StoreTile<2>(sums.tiles[2], kSumsStride);
  StoreTile<3>(sums.tiles[3], kSumsStride);
}

// A step whose sums are on their way to memory.
struct Step {
  const Panel* panel;  // null: none
  const ActivationTiles* x;
  const StepSums* sums;
  int block, num_blocks;
  float* acc;  // [rows, kPanelRows]
};

template <class Block>
inline void Multiply(const TilePanel& w, const Step& step, StepSums& sums) {
  if constexpr (kValues<Block> == 32) {
    MultiplyBlock32<0>(w, *step.x, step.block, sums);
    if (step.num_blocks == 2) MultiplyBlock32<1>(w, *step.x, step.block + 1, sums);
  } else {
    MultiplySuperBlock(w, *step.x, sums);
  }
}

template <class Block>
inline void AddUpBlock32(const Step& step, int tile, int i) {
  const int b = step.block + i;
  for (int t = 0; t < step.x->RowsOf(tile); ++t) {
    const int row = tile * kTileRows + t;
    const int16_t* activation_sums = step.x->sums[row] + 2 * b;
    AddBlock32Term<Block>(*step.panel, b, _mm512_load_si512(step.sums->tiles[2 * tile + i][t]),
                          activation_sums[0] + activation_sums[1], step.x->scales[row][b],
                          step.acc + row * kPanelRows);
  }
}
template <class Block>
inline void AddUpSuperBlock(const Step& step, int tile) {
  for (int t = 0; t < step.x->RowsOf(tile); ++t) {
    const int row = tile * kTileRows + t;
    const __m512i low = _mm512_load_si512(step.sums->tiles[2 * tile][t]);
    const __m512i high = _mm512_load_si512(step.sums->tiles[2 * tile + 1][t]);
    __m512i mins = _mm512_setzero_si512();
    if constexpr (HasMin<Block>) mins = MinSums(*step.panel, step.x->sums[row]);
    AddSuperBlockTerm<Block>(*step.panel, _mm512_add_epi32(low, _mm512_slli_epi32(high, 8)), mins,
                             step.x->scales[row][0], step.acc + row * kPanelRows);
  }
}
template <class Block>
inline void AddUp(const Step& step) {
  if (step.panel == nullptr) return;
  for (int tile = 0; tile < 2; ++tile) {
    if constexpr (kValues<Block> == 32) {
      for (int i = 0; i < step.num_blocks; ++i) AddUpBlock32<Block>(step, tile, i);
    } else {
      AddUpSuperBlock<Block>(step, tile);
    }
  }
}

// All activation rows of a slab times the chunk of some panels. A step's sums are added up while
// the next step multiplies, as they are long under way.
template <class Block>
void SweepTiles(const MatMulArgs& a, PanelScratch& scratch, int panels, int32_t first, int32_t rows,
                int32_t k, int num_blocks, Ahead ahead) {
  ahead.Fetch();
  TilePanel weights[kGroupPanels];
  for (int g = 0; g < panels; ++g) FillTilePanel<Block>(scratch.panels[g], num_blocks, weights[g]);
  ActivationTiles x[2];
  StepSums sums[2];
  Step before{};
  int steps = 0;
  for (int32_t r = 0; r < rows; r += kRowsAbreast) {
    ActivationTiles& tiles = x[r / kRowsAbreast % 2];
    const int present = rows - r < kRowsAbreast ? rows - r : kRowsAbreast;
    TakeRows<Block>(a, first + r, present, k, num_blocks, tiles);
    for (int g = 0; g < panels; ++g) {
      for (int b = 0; b < num_blocks; b += kBlocksAStep<Block>) {
        const int blocks =
            num_blocks - b < kBlocksAStep<Block> ? num_blocks - b : kBlocksAStep<Block>;
        StepSums& to = sums[steps++ % 2];
        const Step step = {&scratch.panels[g], &tiles, &to, b, blocks, scratch.acc[g][r]};
        Multiply<Block>(weights[g], step, to);
        AddUp<Block>(before);
        before = step;
      }
    }
  }
  AddUp<Block>(before);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
