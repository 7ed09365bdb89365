// A panel: 16 weight rows unpacked side by side, for products with many activation rows. Where a
// row has four bytes, a panel has a register of them, one lane a weight row: the transpose of 16
// PanelRows by words of four bytes.
#pragma once

#include "kernels/cpu/expand.h"
#include "kernels/cpu/expand_code_books.h"
#include "kernels/kernel_set.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kChunk = 256;         // values of a row unpacked at a time
inline constexpr int kSteps = kChunk / 4;  // words of them

// One weight row of a chunk.
struct alignas(32) PanelRow {
  uint8_t values[kChunk];  // made unsigned by an offset, or signed where the set wants them so
  int16_t scales[16][2];   // super-blocks: sub-block scale, twice
  int16_t mins[16];        // super-blocks: what multiplies the sums of activations of a sub-block
  float d[8];              // of the blocks; of a super-block: the first
  float dmin[8];
};
// The same of 16 rows.
struct alignas(64) Panel {
  uint8_t values[kSteps][kPanelRows][4];
  int16_t scales[16][kPanelRows][2];
  int16_t mins[8][kPanelRows][2];
  float d[8][kPanelRows];
  float dmin[8][kPanelRows];
};
static_assert(sizeof(Panel) == kPanelRows * sizeof(PanelRow));

// The activations of some rows, from the start of a chunk on, and their sums.
template <int Rows>
struct TileRows {
  const int8_t* values[Rows];
  const float* scales[Rows];
  const int16_t* sums[Rows];  // of 16 values
  float* acc[Rows];           // [kPanelRows], aligned to 64
};

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
