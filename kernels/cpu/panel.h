// Matmul for many activation rows: panels are unpacked into cache, chunk by chunk of 256 values,
// and swept over all activation rows. Each instruction set's panel_ops.h comes first and says how a
// panel is multiplied.
#pragma once

#include "kernels/cpu/expand_panel.h"
#include "kernels/cpu/panel_layout.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kSlabRows = 512;   // activation rows whose sums are kept at a time (even)
inline constexpr int kGroupPanels = 2;  // panels unpacked before activations pass by

struct PanelScratch {
  PanelRow rows[kPanelRows];
  Panel panels[kGroupPanels];
  alignas(64) float acc[kGroupPanels][kSlabRows][kPanelRows];
};
static_assert(sizeof(PanelScratch) <= kScratchBytes);

// Up to 256 values of a row from `blocks` on.
template <class Block>
inline void UnpackRowValues(const Block* blocks, int num_blocks, PanelRow& row) {
  using Traits = PanelTraits<Block>;
  for (int b = 0; b < num_blocks; ++b) ExpandValues(blocks[b], row.values + b * kValues<Block>);
  if constexpr (Traits::kFlipSign) {
    for (int i = 0; i < kChunk; i += 32)
      StoreBytes(LoadBytes<32>(row.values + i) ^ 0x80, row.values + i);
  }
}

template <class Block>
inline void UnpackRowScales(const Block* blocks, int num_blocks, PanelRow& row) {
  using Traits = PanelTraits<Block>;
  for (int b = 0; b < num_blocks; ++b) {
    row.d[b] = Scale(blocks[b]);
    if constexpr (HasMin<Block>) row.dmin[b] = Min(blocks[b]);
  }
  if constexpr (Traits::kSuper) {
    int16_t scales[16];
    ExpandScales(*blocks, scales);
    for (int j = 0; j < 16; ++j) row.scales[j][0] = row.scales[j][1] = scales[j];
    if constexpr (HasMin<Block>) {
      ExpandMins(*blocks, row.mins);
    } else {
      for (int j = 0; j < 16; ++j) row.mins[j] = static_cast<int16_t>(-Traits::kOffset * scales[j]);
    }
  }
}

// Rows from `present` on repeat the first and give outputs that nobody reads.
template <class Block>
void UnpackPanel(const Block* blocks, int64_t row_bytes, int present, int num_blocks,
                 PanelScratch& scratch, Panel& p) {
  using Traits = PanelTraits<Block>;
  PanelRow* rows = scratch.rows;
  const bool full = present == kPanelRows;
  const bool values_by_row = !ExpandsInPanel<Block> || !full;
  const bool scales_by_row = !ExpandsScalesInPanel<Block> || !full;
  for (int r = 0; r < kPanelRows; ++r) {
    const auto* at = reinterpret_cast<const uint8_t*>(blocks) + (r < present ? r : 0) * row_bytes;
    const auto* first = reinterpret_cast<const Block*>(at);
    if (scales_by_row) UnpackRowScales(first, num_blocks, rows[r]);
    if (values_by_row) UnpackRowValues(first, num_blocks, rows[r]);
  }
  const auto transpose = [&](const auto& from, auto& to) {
    static_assert(sizeof(to) == kPanelRows * sizeof(from));
    TransposeWords(reinterpret_cast<const uint8_t*>(&from), sizeof(PanelRow), sizeof(from) / 4,
                   reinterpret_cast<uint8_t*>(&to));
  };
  if (values_by_row) transpose(rows[0].values, p.values);
  if constexpr (ExpandsInPanel<Block>) {
    for (int b = 0; b < num_blocks && !values_by_row; ++b) ExpandPanel(blocks[b], row_bytes, b, p);
  }
  if (scales_by_row) {
    if constexpr (Traits::kSuper) {
      transpose(rows[0].scales, p.scales);
      transpose(rows[0].mins, p.mins);
    }
    transpose(rows[0].d, p.d);
    if constexpr (HasMin<Block>) transpose(rows[0].dmin, p.dmin);
  }
  if constexpr (ExpandsScalesInPanel<Block>) {
    if (!scales_by_row) ExpandScalesInPanel(*blocks, row_bytes, p);
  }
}

// Activation rows [row, row + Rows) times one panel's chunk.
template <class Block, int Rows>
inline void SweepTile(const MatMulArgs& a, const Panel& p, int32_t row, int32_t k, int num_blocks,
                      float* acc) {
  constexpr int kGroup = kValues<Block>;
  TileRows<Rows> tile;
  for (int t = 0; t < Rows; ++t) {
    const int64_t x = XRow(a, row + t);
    tile.values[t] = a.rounded.values + x * a.rounded.stride + k;
    tile.scales[t] = a.rounded.scales + x * (a.cols / kGroup) + k / kGroup;
    tile.sums[t] = a.rounded.sums + x * (a.cols / 16) + k / 16;
    tile.acc[t] = acc + t * kPanelRows;
  }
  if constexpr (PanelTraits<Block>::kSuper) {
    AddSuperBlock<Block, Rows>(p, tile);
  } else {
    AddBlocks32<Block, Rows>(p, num_blocks, tile);
  }
}

// The next tile's activations: rows lie too far apart for the processor to see it coming.
inline void FetchTile(const MatMulArgs& a, int32_t row, int rows, int32_t k) {
  for (int t = 0; t < rows; ++t) {
    const int8_t* values = a.rounded.values + XRow(a, row + t) * a.rounded.stride + k;
    for (int i = 0; i < kChunk; i += 64) __builtin_prefetch(values + i);
  }
}

// Activation rows [row, row + Rows) times the chunk of some panels: they are in L1 by the second.
template <class Block, int Rows>
inline void SweepPanels(const MatMulArgs& a, PanelScratch& scratch, int panels, int32_t first,
                        int32_t r, int32_t k, int num_blocks) {
  for (int g = 0; g < panels; ++g) {
    SweepTile<Block, Rows>(a, scratch.panels[g], first + r, k, num_blocks, scratch.acc[g][r]);
  }
}

// Weights that are wanted soon. They are fetched a share at a time, each with a share of the work:
// in bursts they would keep the loads that are waited for from their turn.
struct Ahead {
  const uint8_t* begin;
  int64_t bytes;

  Ahead Share(int64_t part, int64_t parts) const {
    const int64_t from = bytes * part / parts;
    return {begin + from, bytes * (part + 1) / parts - from};
  }
  void Fetch() const {  // into the second-level cache
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(begin + at, 0, 2);
  }
};

// All activation rows of a slab times the chunk of some panels.
template <class Block>
void SweepRows(const MatMulArgs& a, PanelScratch& scratch, int panels, int32_t first, int32_t rows,
               int32_t k, int num_blocks, Ahead ahead) {
  constexpr int kTile = PanelTraits<Block>::kTileRows;
  if (rows < kTile) ahead.Fetch();
  int32_t r = 0;
  for (; r + kTile <= rows; r += kTile) {
    ahead.Share(r / kTile, rows / kTile).Fetch();
    FetchTile(a, first + r + kTile, r + 2 * kTile <= rows ? kTile : 0, k);
    SweepPanels<Block, kTile>(a, scratch, panels, first, r, k, num_blocks);
  }
  if constexpr (kTile > 2) {
    for (; r + 2 <= rows; r += 2)
      SweepPanels<Block, 2>(a, scratch, panels, first, r, k, num_blocks);
  }
  for (; r < rows; ++r) SweepPanels<Block, 1>(a, scratch, panels, first, r, k, num_blocks);
}

// Sums of a panel for one output row.
template <int Columns>
inline void StoreSums(const float* sums, const float* left_over, const float* bias, float* out,
                      int columns = Columns) {
  for (int i = 0; i < columns; ++i) {
    float sum = left_over != nullptr ? sums[i] + left_over[i] : sums[i];
    if (bias != nullptr) sum += bias[i];
    out[i] = sum;
  }
}
inline void StorePanel(const MatMulArgs& a, const float* acc, int32_t first, int32_t rows,
                       int32_t n, int columns) {
  const float* bias = a.bias != nullptr ? a.bias + n : nullptr;
  const int step = a.fine ? 2 : 1;  // rows of sums an output row
  for (int32_t r = 0; r < rows; r += step) {
    const float* sums = acc + r * kPanelRows;
    const float* left_over = a.fine ? sums + kPanelRows : nullptr;
    float* out = OutRow(a, (first + r) / step) + n;
    if (columns == kPanelRows) {
      StoreSums<kPanelRows>(sums, left_over, bias, out);
    } else {
      StoreSums<0>(sums, left_over, bias, out, columns);
    }
  }
}

// Some panels times activation rows [first, first + rows). The weights behind them, straight on,
// are fetched meanwhile: with few activation rows it is memory that everything waits for.
template <class Block, auto Sweep>
void MultiplyGroup(const MatMulArgs& a, int32_t n, int panels, int32_t first, int32_t rows,
                   PanelScratch& scratch) {
  const auto present = [&](int g) {
    const int32_t left = a.end - n - g * kPanelRows;
    return left < kPanelRows ? left : kPanelRows;
  };
  for (int g = 0; g < panels; ++g) memset(scratch.acc[g], 0, sizeof(scratch.acc[g][0]) * rows);
  const int64_t group_bytes = panels * kPanelRows * a.weight_row_bytes;
  const Ahead ahead = {a.weight + (n + panels * kPanelRows) * a.weight_row_bytes,
                       n + 2 * panels * kPanelRows <= a.end ? group_bytes : 0};
  const int32_t num_chunks = (a.cols + kChunk - 1) / kChunk;
  for (int32_t k = 0; k < a.cols; k += kChunk) {
    const int num_blocks = (a.cols - k < kChunk ? a.cols - k : kChunk) / kValues<Block>;
    for (int g = 0; g < panels; ++g) {
      const uint8_t* row = a.weight + (n + g * kPanelRows) * a.weight_row_bytes;
      UnpackPanel(reinterpret_cast<const Block*>(row) + k / kValues<Block>, a.weight_row_bytes,
                  present(g), num_blocks, scratch, scratch.panels[g]);
    }
    Sweep(a, scratch, panels, first, rows, k, num_blocks, ahead.Share(k / kChunk, num_chunks));
  }
  for (int g = 0; g < panels; ++g) {
    StorePanel(a, scratch.acc[g][0], first, rows, n + g * kPanelRows, present(g));
  }
}

template <class Block, auto Sweep = SweepRows<Block>>
void PanelMatMul(const MatMulArgs& a) {
  auto& scratch = *static_cast<PanelScratch*>(a.scratch);
  for (int32_t first = 0; first < a.rows; first += kSlabRows) {
    const int32_t rows = a.rows - first < kSlabRows ? a.rows - first : kSlabRows;
    for (int32_t n = a.begin; n < a.end; n += kGroupPanels * kPanelRows) {
      const int32_t left = (a.end - n + kPanelRows - 1) / kPanelRows;
      const int panels = left < kGroupPanels ? left : kGroupPanels;
      MultiplyGroup<Block, Sweep>(a, n, panels, first, rows, scratch);
    }
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
