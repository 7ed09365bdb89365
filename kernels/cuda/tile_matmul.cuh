// Quantized products of many rows, as in prefill: int8 tensor cores.
//
// A block of 128 threads makes 64 x 64 outputs: its four warps 32 x 32 each. 128 columns of weights
// are unpacked to bytes in shared memory at a time and used by 64 rows of activations. mma makes
// the exact integer sums; the floats follow, block by block, in the order of ARITHMETIC.md.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/row_matmul.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kTile = 64;             // rows and columns of outputs
inline constexpr int kTileThreads = 128;     // four warps
inline constexpr int kTileSpans = 4;         // spans of 32 columns at a time
inline constexpr int kTilePitch = 128 + 16;  // bytes: the rows of a fragment lie in different banks

template <class Block>
struct MatMulTile {
  static constexpr bool kSuper = kValues<Block> == 256;
  static constexpr int kScales = kSuper ? 1 : kTileSpans;  // floats of a row at a time

  uint4 weights[kTile][kTilePitch / 16];  // bytes
  uint4 x[kTile][kTilePitch / 16];
  int16_t x_sums[kTile][2 * kTileSpans];
  int16_t sub_scales[kSuper ? kTile : 1][2 * kTileSpans];
  int16_t sub_mins[kSuper && HasMin<Block> ? kTile : 1][2 * kTileSpans];
  float scales[kTile][kScales];
  float mins[HasMin<Block> ? kTile : 1][kScales];
  float x_scales[kTile][kScales];
  int32_t x_rows[kTile];
};

__device__ inline uint32_t WordAt(const uint4* row, int word) {
  return reinterpret_cast<const uint32_t*>(row)[word];
}

// Columns [span * 32, …) of the tile's weight rows, unpacked, and their scales.
template <class Block>
__device__ inline void LoadTileWeights(const CudaMatMulArgs& a, const MatMulSlice& slice,
                                       int first_out, int first_span, int spans,
                                       MatMulTile<Block>& tile) {
  constexpr int kBlockSpans = kValues<Block> / kSpan;
  const int blocks = a.cols / kValues<Block>;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTileSpans; i += kTileThreads) {
    const int row = i / kTileSpans, s = i % kTileSpans;
    if (first_span + s >= spans) continue;
    const DeviceRow<Block> weights(slice.WeightRow(a, first_out + row), blocks);
    const DeviceBlock<Block> block = weights[(first_span + s) / kBlockSpans];
    const int span = (first_span + s) % kBlockSpans;
    const SpanWords w = Words(block, span);
    tile.weights[row][2 * s] = {w.w[0], w.w[1], w.w[2], w.w[3]};
    tile.weights[row][2 * s + 1] = {w.w[4], w.w[5], w.w[6], w.w[7]};
    if constexpr (MatMulTile<Block>::kSuper) {
      const SubScales sub = SubScalesOf(block, span);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        tile.sub_scales[row][2 * s + h] = static_cast<int16_t>(sub.scale[h]);
        if constexpr (HasMin<Block>)
          tile.sub_mins[row][2 * s + h] = static_cast<int16_t>(sub.min[h]);
      }
    }
    if (MatMulTile<Block>::kSuper && s != 0) continue;
    const int at = MatMulTile<Block>::kSuper ? 0 : s;
    tile.scales[row][at] = BlockScale(block);
    if constexpr (HasMin<Block>) tile.mins[row][at] = BlockMin(block);
  }
}

template <class Block>
__device__ inline void LoadTileX(const CudaMatMulArgs& a, int first_span, int spans,
                                 MatMulTile<Block>& tile) {
  constexpr int kBlockSpans = kValues<Block> / kSpan;
  const int blocks = a.cols / kValues<Block>;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTileSpans; i += kTileThreads) {
    const int row = i / kTileSpans, s = i % kTileSpans;
    if (first_span + s >= spans) continue;
    const int64_t x_row = tile.x_rows[row];
    const auto* values = reinterpret_cast<const uint8_t*>(a.rounded.values) +
                         x_row * a.rounded.stride + (first_span + s) * kSpan;
    tile.x[row][2 * s] = LoadVector(values);
    tile.x[row][2 * s + 1] = LoadVector(values + 16);
    const int16_t* sums = a.rounded.sums + x_row * (a.cols / 16) + (first_span + s) * 2;
    tile.x_sums[row][2 * s] = sums[0];
    tile.x_sums[row][2 * s + 1] = sums[1];
    if (MatMulTile<Block>::kSuper && s != 0) continue;
    const int at = MatMulTile<Block>::kSuper ? 0 : s;
    tile.x_scales[row][at] = a.rounded.scales[x_row * blocks + (first_span + s) / kBlockSpans];
  }
}

// A warp's outputs: fragments [2] of 16 rows by [4] of 8 columns.
struct WarpFloats {
  float v[2][4][4];
};
struct WarpInts {
  int v[2][4][4];
};

// Where a lane's outputs lie in the tile.
struct LanePlace {
  int row, column;  // of the warp's part; its own are row + 16 i + {0, 8}, column + 8 j + {0, 1}
  int group, quad;  // lane / 4, lane % 4

  __device__ LanePlace() {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    group = lane / 4;
    quad = lane % 4;
    row = warp / 2 * 32 + group;
    column = warp % 2 * 32 + quad * 2;
  }
  __device__ int Row(int i, int e) const { return row + 16 * i + e / 2 * 8; }
  __device__ int Column(int j, int e) const { return column + 8 * j + e % 2; }
  // Of the weight row that the lane loads for fragment j.
  __device__ int WeightRow(int j) const { return column - quad * 2 + 8 * j + group; }
};

// Where the sums of a block of 32 start: at the bits of 1.5 * 2^23, so that they end as the bits of
// 1.5 * 2^23 + sum. A subtraction then makes the float, exactly, for less than a conversion takes.
template <class Block>
inline constexpr int kStart = MatMulTile<Block>::kSuper ? 0 : 0x4b400000;
__device__ inline float SumFrom(int c) {  // |sum| < 2^22
  return FloatFromBits(static_cast<uint32_t>(c)) - kRoundingMagic;
}

// One span of a tile: sums of products of each run of 16 values, or of all 32 where they share a
// scale, from kStart on, given to use(i, j, run, c).
template <class Block, class Use>
__device__ inline void MultiplySpan(const MatMulTile<Block>& tile, const LanePlace& place, int s,
                                    const Use& use) {
  constexpr bool kWhole = !MatMulTile<Block>::kSuper || kScaleOfSpan<Block>;
  const int word = s * 8 + place.quad;
  uint32_t b[4][2];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    b[j][0] = WordAt(tile.weights[place.WeightRow(j)], word);
    b[j][1] = WordAt(tile.weights[place.WeightRow(j)], word + 4);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int top = place.Row(i, 0), bottom = place.Row(i, 2);
    const uint32_t a[4] = {WordAt(tile.x[top], word), WordAt(tile.x[bottom], word),
                           WordAt(tile.x[top], word + 4), WordAt(tile.x[bottom], word + 4)};
    const int sums[2][2] = {{tile.x_sums[top][2 * s], tile.x_sums[bottom][2 * s]},
                            {tile.x_sums[top][2 * s + 1], tile.x_sums[bottom][2 * s + 1]}};
    constexpr int kOff = -kOffset<Block>;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if constexpr (kWhole) {
        const int high = kStart<Block> + kOff * (sums[0][0] + sums[1][0]);
        const int low = kStart<Block> + kOff * (sums[0][1] + sums[1][1]);
        int c[4] = {high, high, low, low};
        Mma32(c, a, b[j]);
        use(i, j, 0, c);
      } else {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int high = kOff * sums[h][0], low = kOff * sums[h][1];
          int c[4] = {high, high, low, low};
          const uint32_t half[2] = {a[2 * h], a[2 * h + 1]};
          Mma16(c, half, b[j][h]);
          use(i, j, h, c);
        }
      }
    }
  }
}

template <class Block>
__device__ inline void AddSpan32(const MatMulTile<Block>& tile, const LanePlace& place, int s,
                                 WarpFloats& out) {
  MultiplySpan(tile, place, s, [&](int i, int j, int, const int(&c)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = place.Row(i, e), column = place.Column(j, e);
      float min = 0;
      if constexpr (HasMin<Block>) min = tile.mins[column][s];
      const float term = Term32<Block>(tile.scales[column][s], min, SumFrom(c[e]),
                                       tile.x_sums[row][2 * s] + tile.x_sums[row][2 * s + 1]);
      out.v[i][j][e] = Fma(tile.x_scales[row][s], term, out.v[i][j][e]);
    }
  });
}

template <class Block>
__device__ inline void AddSpanToSums(const MatMulTile<Block>& tile, const LanePlace& place, int s,
                                     WarpInts& totals, WarpInts& mins) {
  MultiplySpan(tile, place, s, [&](int i, int j, int h, const int(&c)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = place.Row(i, e), column = place.Column(j, e);
      totals.v[i][j][e] += tile.sub_scales[column][2 * s + h] * c[e];
      if constexpr (HasMin<Block>) {
        int x_sum = tile.x_sums[row][2 * s + h];
        if constexpr (kScaleOfSpan<Block>) x_sum += tile.x_sums[row][2 * s + 1];
        mins.v[i][j][e] += tile.sub_mins[column][2 * s + h] * x_sum;
      }
    }
  });
}

// The end of a super-block: from integers to floats.
template <class Block>
__device__ inline void AddSuperBlock(const MatMulTile<Block>& tile, const LanePlace& place,
                                     WarpInts& totals, WarpInts& mins, WarpFloats& out) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = place.Row(i, e), column = place.Column(j, e);
        float min = 0;
        if constexpr (HasMin<Block>) min = tile.mins[column][0];
        const float term =
            SuperTerm<Block>(tile.scales[column][0], min, totals.v[i][j][e], mins.v[i][j][e]);
        out.v[i][j][e] = Fma(tile.x_scales[row][0], term, out.v[i][j][e]);
        totals.v[i][j][e] = 0;
        mins.v[i][j][e] = 0;
      }
    }
  }
}

// Adds to each row's outputs those of the row beside it, whose lane is four away.
__device__ inline void AddRowsBeside(WarpFloats& out) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out.v[i][j][e] += __shfl_xor_sync(kAllLanes, out.v[i][j][e], 4);
      }
    }
  }
}

template <class Block>
__global__ void __launch_bounds__(kTileThreads) TileMatMul(CudaMatMulArgs a) {
  __shared__ MatMulTile<Block> tile;
  const MatMulSlice slice(a, kTile);
  const int first_row = static_cast<int>(blockIdx.y) * kTile;
  if (first_row >= slice.count) return;
  const int first_out = slice.first_out;
  if (threadIdx.x < kTile) {
    const int i = first_row + static_cast<int>(threadIdx.x);
    tile.x_rows[threadIdx.x] =
        static_cast<int32_t>(slice.XRow(a, i < slice.count ? i : slice.count - 1));
  }
  __syncthreads();

  const LanePlace place;
  WarpFloats out = {};
  WarpInts totals = {}, mins = {};
  const int spans = a.cols / kSpan;
  for (int first = 0; first < spans; first += kTileSpans) {
    LoadTileWeights(a, slice, first_out, first, spans, tile);
    LoadTileX(a, first, spans, tile);
    __syncthreads();
#pragma unroll 1  // the fragments of four spans at once would leave room for few warps
    for (int s = 0; s < kTileSpans; ++s) {
      if (first + s >= spans) break;
      if constexpr (MatMulTile<Block>::kSuper) {
        AddSpanToSums(tile, place, s, totals, mins);
      } else {
        AddSpan32(tile, place, s, out);
      }
    }
    if constexpr (MatMulTile<Block>::kSuper) {
      if (first % 8 != 0) AddSuperBlock(tile, place, totals, mins, out);
    }
    __syncthreads();
  }

  if (a.fine) AddRowsBeside(out);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      const int row = first_row + place.Row(i, e);
      if (row >= slice.count || (a.fine && row % 2 != 0)) continue;
      float* to = slice.OutRow(a, row);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int n = first_out + place.Column(j, c);
          if (n >= slice.target.outs) continue;
          to[n] = slice.WithBias(n, out.v[i][j][e + c]);
        }
      }
    }
  }
}

template <class Block>
void MatMulOf(const CudaMatMulArgs& a, CudaStream stream) {
  if (a.rows <= kFewRows) return MatMulFewRows<Block>(a, stream);
  BATON_LAUNCH(TileMatMul<Block>, MatMulGrid(a, kTile, kTile), dim3(kTileThreads), 0, stream, a);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
