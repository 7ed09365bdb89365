// Matmul for many activation rows: 16 weight rows at a time are unpacked into a panel in L1, chunk
// by chunk of 256 values, and swept over all activation rows. The lanes of a register are weight
// rows, four bytes of each.
#pragma once

#include "kernels/cpu/avx2/integers.h"
#include "kernels/cpu/expand.h"
#include "kernels/kernel_set.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kChunk = 256;         // values unpacked at a time
inline constexpr int kSteps = kChunk / 4;  // of four values a row
inline constexpr int kSlabRows = 512;      // activation rows whose sums are kept at a time
inline constexpr int kGroupPanels = 2;     // panels unpacked before activations pass by

// A product of an unsigned byte and an activation is at most kLargest * 127, a pair of them goes
// into 16 bits: how many pairs may be added up there (a power of two, at most 8); 0: not even one,
// the byte must be split in two.
constexpr int PairsIn16Bits(int largest) {
  int pairs = 8;
  while (pairs > 0 && pairs * 2 * largest * 127 > 32767) pairs /= 2;
  return pairs;
}

template <class Block>
struct PanelTraits {
  static constexpr bool kSuper = kValues<Block> == 256;
  static constexpr int kOffset = IntegerRange<Block>::kOffset;
  static constexpr bool kSplit =
      PairsIn16Bits(IntegerRange<Block>::kLargest) == 0;  // high and low nibbles apart
  static constexpr int kPairs = kSplit ? 8 : PairsIn16Bits(IntegerRange<Block>::kLargest);
};

struct alignas(64) Panel {
  uint8_t low[kSteps][kPanelRows][4];   // values, or their low nibbles
  uint8_t high[kSteps][kPanelRows][4];  // high nibbles
  int16_t scales[16][kPanelRows][2];    // super-blocks: sub-block scale, twice
  int16_t mins[8][kPanelRows]
              [2];  // super-blocks: of two sub-blocks, what multiplies their sums of activations
  float d[8][kPanelRows];  // of the 8 blocks; super-blocks: of the first
  float dmin[8][kPanelRows];
};

// Rows of 16 bytes, `stride` apart, to 4 registers: register g holds bytes 4g to 4g + 3 of rows 0
// to 7.
inline void Transpose8(const uint8_t* rows, int64_t stride, __m256i out[4]) {
  __m256i z[4];
  for (int i = 0; i < 4; ++i) {
    const auto* a = reinterpret_cast<const __m128i*>(rows + i * stride);
    const auto* b = reinterpret_cast<const __m128i*>(rows + (i + 4) * stride);
    z[i] =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(a)), _mm_loadu_si128(b), 1);
  }
  const __m256i l0 = _mm256_unpacklo_epi32(z[0], z[1]), l1 = _mm256_unpacklo_epi32(z[2], z[3]);
  const __m256i h0 = _mm256_unpackhi_epi32(z[0], z[1]), h1 = _mm256_unpackhi_epi32(z[2], z[3]);
  out[0] = _mm256_unpacklo_epi64(l0, l1);
  out[1] = _mm256_unpackhi_epi64(l0, l1);
  out[2] = _mm256_unpacklo_epi64(h0, h1);
  out[3] = _mm256_unpackhi_epi64(h0, h1);
}

template <class Block>
inline void StoreRowScales(const Block* blocks, int num_blocks, int row, Panel& p) {
  for (int b = 0; b < num_blocks; ++b) {
    p.d[b][row] = Scale(blocks[b]);
    if constexpr (HasMin<Block>) p.dmin[b][row] = Min(blocks[b]);
  }
  if constexpr (PanelTraits<Block>::kSuper) {
    for (int j = 0; j < 16; ++j) {
      const auto scale = static_cast<int16_t>(SubScale(*blocks, j));
      p.scales[j][row][0] = p.scales[j][row][1] = scale;
      if constexpr (HasMin<Block>) {
        p.mins[j / 2][row][j % 2] = static_cast<int16_t>(SubMin(*blocks, j));
      } else {
        p.mins[j / 2][row][j % 2] = static_cast<int16_t>(-PanelTraits<Block>::kOffset * scale);
      }
    }
  }
}

// Up to 256 values from `blocks` on, of 16 rows; rows from `rows` on count as 0 and give outputs
// that nobody reads.
template <class Block>
void UnpackPanel(const Block* blocks, int64_t row_bytes, int rows, int num_blocks, Panel& p) {
  alignas(32) uint8_t bytes[kPanelRows][kChunk];
  for (int r = 0; r < kPanelRows; ++r) {
    const int source = r < rows ? r : 0;
    const auto* row = reinterpret_cast<const Block*>(reinterpret_cast<const uint8_t*>(blocks) +
                                                     source * row_bytes);
    for (int b = 0; b < num_blocks; ++b) ExpandValues(row[b], bytes[r] + b * kValues<Block>);
    StoreRowScales(row, num_blocks, r, p);
  }
  const __m256i nibble = _mm256_set1_epi8(15);
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < num_blocks * kValues<Block>; k += 16) {
      __m256i out[4];
      Transpose8(bytes[half * 8] + k, kChunk, out);
      for (int g = 0; g < 4; ++g) {
        auto* low = reinterpret_cast<__m256i*>(p.low[k / 4 + g][half * 8]);
        if constexpr (PanelTraits<Block>::kSplit) {
          auto* high = reinterpret_cast<__m256i*>(p.high[k / 4 + g][half * 8]);
          _mm256_store_si256(high, _mm256_and_si256(_mm256_srli_epi16(out[g], 4), nibble));
          _mm256_store_si256(low, _mm256_and_si256(out[g], nibble));
        } else {
          _mm256_store_si256(low, out[g]);
        }
      }
    }
  }
}

inline __m256i LoadRow(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }

// Keeps a sum where the code says it: GCC 12 else multiplies everything first, and spills it all.
inline void Pin(__m256i& sum) { asm volatile("" : "+x"(sum)); }

// sums[t][h] += scale[h] * (sum over `Steps` steps of weights * activations), weights one plane of
// bytes.
template <int Rows, int Steps, int Pairs>
inline __attribute__((always_inline)) void AddSteps(const uint8_t (*w)[kPanelRows][4],
                                                    const int8_t* const* a, int k,
                                                    const __m256i scale[2],
                                                    __m256i (&sums)[Rows][2]) {
  constexpr int kRun = Pairs < Steps ? Pairs : Steps;
#pragma GCC unroll 8
  for (int s = 0; s < Steps; s += kRun) {
    __m256i words[Rows][2];
#pragma GCC unroll 8
    for (int i = 0; i < kRun; ++i) {
      const __m256i w0 = LoadRow(w[s + i][0]), w1 = LoadRow(w[s + i][8]);
#pragma GCC unroll 4
      for (int t = 0; t < Rows; ++t) {
        const __m256i x = Broadcast4(a[t] + k + 4 * (s + i));
        const __m256i p0 = _mm256_maddubs_epi16(w0, x), p1 = _mm256_maddubs_epi16(w1, x);
        words[t][0] = i == 0 ? p0 : _mm256_add_epi16(words[t][0], p0);
        words[t][1] = i == 0 ? p1 : _mm256_add_epi16(words[t][1], p1);
        Pin(words[t][0]);
        Pin(words[t][1]);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < Rows; ++t) {
      sums[t][0] = _mm256_add_epi32(sums[t][0], _mm256_madd_epi16(words[t][0], scale[0]));
      sums[t][1] = _mm256_add_epi32(sums[t][1], _mm256_madd_epi16(words[t][1], scale[1]));
    }
  }
}

// Where the activations of some rows stand in a chunk.
template <int Rows>
struct TileRows {
  const int8_t* values[Rows];  // from the chunk's first value on
  const float* scales[Rows];   // from the chunk's first group on
  const int16_t* sums[Rows];   // from the chunk's first 16 values on
  float* acc[Rows];            // [kPanelRows], aligned
};

template <class Block, int Rows>
inline void AddBlocks32(const Panel& p, int num_blocks, const TileRows<Rows>& tile) {
  using Traits = PanelTraits<Block>;
  const __m256i ones = _mm256_set1_epi16(1), sixteens = _mm256_set1_epi16(16);
  const __m256i one[2] = {ones, ones}, sixteen[2] = {sixteens, sixteens};
  const __m256i offset = _mm256_set1_epi16(-Traits::kOffset);
  for (int b = 0; b < num_blocks; ++b) {
    __m256i sums[Rows][2];
    for (int t = 0; t < Rows; ++t) {
      sums[t][0] = sums[t][1] = Traits::kOffset != 0
                                    ? _mm256_madd_epi16(Broadcast4(tile.sums[t] + 2 * b), offset)
                                    : _mm256_setzero_si256();
    }
    AddSteps<Rows, 8, Traits::kPairs>(p.low + b * 8, tile.values, b * 32, one, sums);
    if constexpr (Traits::kSplit)
      AddSteps<Rows, 8, Traits::kPairs>(p.high + b * 8, tile.values, b * 32, sixteen, sums);
    for (int h = 0; h < 2; ++h) {
      const __m256 d = _mm256_load_ps(p.d[b] + h * 8);
      for (int t = 0; t < Rows; ++t) {
        float* acc = tile.acc[t] + h * 8;
        const __m256 s = _mm256_cvtepi32_ps(sums[t][h]);
        __m256 term;
        if constexpr (HasMin<Block>) {
          const __m256 sum =
              _mm256_cvtepi32_ps(_mm256_madd_epi16(Broadcast4(tile.sums[t] + 2 * b), ones));
          term = _mm256_fmadd_ps(d, s, _mm256_mul_ps(_mm256_load_ps(p.dmin[b] + h * 8), sum));
        } else {
          term = _mm256_mul_ps(d, s);
        }
        _mm256_store_ps(
            acc, _mm256_fmadd_ps(_mm256_set1_ps(tile.scales[t][b]), term, _mm256_load_ps(acc)));
      }
    }
  }
}

template <class Block, int Rows>
inline void AddSuperBlock(const Panel& p, const TileRows<Rows>& tile) {
  using Traits = PanelTraits<Block>;
  __m256i sums[Rows][2];
  for (auto& row : sums) row[0] = row[1] = _mm256_setzero_si256();
  for (int j = 0; j < 16; ++j) {
    const __m256i scale[2] = {LoadRow(p.scales[j][0]), LoadRow(p.scales[j][8])};
    AddSteps<Rows, 4, Traits::kPairs>(p.low + j * 4, tile.values, j * 16, scale, sums);
    if constexpr (Traits::kSplit) {
      const __m256i high[2] = {_mm256_slli_epi16(scale[0], 4), _mm256_slli_epi16(scale[1], 4)};
      AddSteps<Rows, 4, Traits::kPairs>(p.high + j * 4, tile.values, j * 16, high, sums);
    }
  }
  for (int h = 0; h < 2; ++h) {
    const __m256 d = _mm256_load_ps(p.d[0] + h * 8);
    for (int t = 0; t < Rows; ++t) {
      __m256i mins = _mm256_setzero_si256();
      for (int i = 0; i < 8; ++i) {
        mins = _mm256_add_epi32(
            mins, _mm256_madd_epi16(LoadRow(p.mins[i][h * 8]), Broadcast4(tile.sums[t] + 2 * i)));
      }
      __m256 term;
      if constexpr (HasMin<Block>) {
        const __m256 z = _mm256_mul_ps(_mm256_load_ps(p.dmin[0] + h * 8), _mm256_cvtepi32_ps(mins));
        term = _mm256_fmsub_ps(d, _mm256_cvtepi32_ps(sums[t][h]), z);
      } else {
        term = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_add_epi32(sums[t][h], mins)));
      }
      float* acc = tile.acc[t] + h * 8;
      _mm256_store_ps(
          acc, _mm256_fmadd_ps(_mm256_set1_ps(tile.scales[t][0]), term, _mm256_load_ps(acc)));
    }
  }
}

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
    AddSuperBlock<Block>(p, tile);
  } else {
    AddBlocks32<Block>(p, num_blocks, tile);
  }
}

// Activation rows [first, first + rows) times one panel's chunk.
template <class Block>
void SweepPanel(const MatMulArgs& a, const Panel& p, int32_t first, int32_t rows, int32_t k,
                int num_blocks, float* acc) {
  constexpr int kTile = PanelTraits<Block>::kSplit ? 2 : 4;
  int32_t r = 0;
  for (; r + kTile <= rows; r += kTile) {
    SweepTile<Block, kTile>(a, p, first + r, k, num_blocks, acc + r * kPanelRows);
  }
  for (; r < rows; ++r) SweepTile<Block, 1>(a, p, first + r, k, num_blocks, acc + r * kPanelRows);
}

struct PanelScratch {
  Panel panels[kGroupPanels];
  alignas(64) float acc[kGroupPanels][kSlabRows][kPanelRows];
};
static_assert(sizeof(PanelScratch) <= kScratchBytes);

inline void StorePanel(const MatMulArgs& a, const float* acc, int32_t first, int32_t rows,
                       int32_t n, int columns) {
  for (int32_t r = 0; r < rows; ++r) {
    float* out = OutRow(a, first + r) + n;
    const float* sums = acc + r * kPanelRows;
    for (int i = 0; i < columns; ++i)
      out[i] = a.bias != nullptr ? sums[i] + a.bias[n + i] : sums[i];
  }
}

template <class Block>
void PanelMatMul(const MatMulArgs& a) {
  auto& scratch = *static_cast<PanelScratch*>(a.scratch);
  constexpr int kBlock = kValues<Block>;
  for (int32_t first = 0; first < a.rows; first += kSlabRows) {
    const int32_t rows = a.rows - first < kSlabRows ? a.rows - first : kSlabRows;
    for (int32_t n = a.begin; n < a.end; n += kGroupPanels * kPanelRows) {
      for (auto& acc : scratch.acc) memset(acc, 0, sizeof(acc[0]) * rows);
      for (int32_t k = 0; k < a.cols; k += kChunk) {
        const int num_blocks = (a.cols - k < kChunk ? a.cols - k : kChunk) / kBlock;
        for (int g = 0; g < kGroupPanels; ++g) {
          const int32_t row = n + g * kPanelRows;
          if (row >= a.end) break;
          const auto* blocks =
              reinterpret_cast<const Block*>(a.weight + row * a.weight_row_bytes) + k / kBlock;
          const int present = a.end - row < kPanelRows ? a.end - row : kPanelRows;
          UnpackPanel(blocks, a.weight_row_bytes, present, num_blocks, scratch.panels[g]);
        }
        for (int g = 0; g < kGroupPanels && n + g * kPanelRows < a.end; ++g) {
          SweepPanel<Block>(a, scratch.panels[g], first, rows, k, num_blocks, scratch.acc[g][0]);
        }
      }
      for (int g = 0; g < kGroupPanels; ++g) {
        const int32_t row = n + g * kPanelRows;
        if (row >= a.end) break;
        StorePanel(a, scratch.acc[g][0], first, rows, row,
                   a.end - row < kPanelRows ? a.end - row : kPanelRows);
      }
    }
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
