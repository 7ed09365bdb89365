// Quantized products of few rows, as in decode: the weights stream once, a thread to 32 of them.
//
// A block of threads takes four weight rows. Its threads make the exact integer sums and from them
// the terms that blocks add to outputs (ARITHMETIC.md, "Matmul with quantized weights"); the terms
// then meet in shared memory, where one thread an output adds them up in their order, while the
// others load on.
#pragma once

#include "kernels/cuda/device_blocks.cuh"
#include "kernels/cuda/parts.cuh"
#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kWeightRows = 4;  // of a block of threads
inline constexpr int kMostLanes = 64;  // threads of a weight row

// What a block of threads works on: outputs of one target from `first_out` on, a slice of its
// product and the slice's rows, as CudaMatMulArgs says.
struct MatMulSlice {
  CudaMatMulTarget target;
  int32_t first_out;
  int32_t index, weight, begin, count;

  // Targets follow each other in the first dimension of the grid, in blocks of so many outputs.
  __device__ MatMulSlice(const CudaMatMulArgs& a, int outs_of_block)
      : target(a.targets[0]),
        index(static_cast<int32_t>(blockIdx.z)),
        weight(a.slice_weights != nullptr ? a.slice_weights[index] : index),
        begin(a.slice_begin != nullptr ? a.slice_begin[index] : 0),
        count(a.slice_begin != nullptr ? a.slice_begin[index + 1] - begin : a.rows) {
    int block = static_cast<int>(blockIdx.x);
#pragma unroll
    for (int next = 1; next < kMostCudaTargets; ++next) {
      const int blocks = (target.outs + outs_of_block - 1) / outs_of_block;
      if (block < blocks) break;
      block -= blocks;
      target = a.targets[next];
    }
    first_out = block * outs_of_block;
  }

  __device__ int64_t XRow(const CudaMatMulArgs& a, int32_t i) const {
    return a.x_rows != nullptr ? a.x_rows[begin + i] : (i * a.slices + index) / a.slices_per_x_row;
  }
  // Where out row i begins.
  __device__ float* OutRow(const CudaMatMulArgs& a, int32_t i) const {
    int64_t row = a.fine ? i / 2 : i * a.slices + index;
    if (a.out_rows != nullptr) row = a.out_rows[begin + i];
    return target.out + row * target.out_stride;
  }
  // Row `out` of the weight; beyond its end, the last.
  __device__ const uint8_t* WeightRow(const CudaMatMulArgs& a, int32_t out) const {
    const int32_t n = out < target.outs ? out : target.outs - 1;
    return target.weight + (int64_t{weight} * target.outs + n) * a.row_bytes;
  }
  __device__ float WithBias(int32_t out, float sum) const {
    return target.bias != nullptr ? sum + target.bias[int64_t{weight} * target.outs + out] : sum;
  }
};
inline dim3 MatMulGrid(const CudaMatMulArgs& a, int outs_of_block, int rows_of_block) {
  unsigned blocks = 0;
  for (int t = 0; t < a.num_targets; ++t) blocks += CeilDiv(a.targets[t].outs, outs_of_block);
  return dim3(blocks, CeilDiv(a.rows, rows_of_block), static_cast<unsigned>(a.slices));
}

// Sums of products of a span's runs of 16 values.
struct SpanDots {
  int run[2];
};
template <int Offset>
__device__ inline SpanDots Dots(const SpanWords& w, const int8_t* values, const int16_t* sums) {
  const SpanWords x = LoadSpan(reinterpret_cast<const uint8_t*>(values));
  SpanDots dots = {{0, 0}};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    dots.run[i / 4] = __dp4a(static_cast<int>(w.w[i]), static_cast<int>(x.w[i]), dots.run[i / 4]);
  }
  if constexpr (Offset != 0) {
    dots.run[0] -= Offset * sums[0];
    dots.run[1] -= Offset * sums[1];
  }
  return dots;
}

// What a block of 32 adds to an output, but for the activations' scale: S exact, then in floats.
template <class Block>
__device__ inline float Term32(float scale, float min, float sum, int x_sum) {
  if constexpr (HasMin<Block>) {
    return Fma(scale, sum, min * static_cast<float>(x_sum));
  } else {
    return scale * sum;
  }
}
template <class Block>
__device__ inline float SuperTerm(float scale, float min, int sum, int mins) {
  if constexpr (HasMin<Block>) {
    return Fma(scale, static_cast<float>(sum), -(min * static_cast<float>(mins)));
  } else {
    return scale * static_cast<float>(sum);
  }
}

__device__ inline int SumOfEightLanes(int v) {
  v += __shfl_xor_sync(kAllLanes, v, 4);
  v += __shfl_xor_sync(kAllLanes, v, 2);
  return v + __shfl_xor_sync(kAllLanes, v, 1);
}

template <class Block, int Rows>
__global__ void __launch_bounds__(kWeightRows* kMostLanes) RowMatMul(CudaMatMulArgs a) {
  constexpr int kSpans = kValues<Block> / kSpan;  // of a block, each a lane's
  constexpr int kMostTerms = kMostLanes / kSpans;
  __shared__ float terms[2][Rows][kWeightRows][kMostTerms + 1];
  const MatMulSlice slice(a, kWeightRows);
  const int first_row = static_cast<int>(blockIdx.y) * Rows;
  if (first_row >= slice.count) return;

  const int lanes = static_cast<int>(blockDim.x) / kWeightRows;
  const int weight_row = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int first_out = slice.first_out;
  const int blocks = a.cols / kValues<Block>;
  const DeviceRow<Block> weights(slice.WeightRow(a, first_out + weight_row), blocks);
  int64_t x_row[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const int i = first_row + r < slice.count ? first_row + r : slice.count - 1;
    x_row[r] = slice.XRow(a, i);
  }

  // The thread that adds up an output's terms.
  const int chain_row = static_cast<int>(threadIdx.x) / kWeightRows;
  const int chain_out = static_cast<int>(threadIdx.x) % kWeightRows;
  const bool chains = chain_row < Rows && first_row + chain_row < slice.count &&
                      first_out + chain_out < slice.target.outs;
  const float* chain_scales =
      a.rounded.scales + (chains ? slice.XRow(a, first_row + chain_row) * blocks : 0);
  float sum = 0;

  const int step = lanes / kSpans;  // blocks at a time
  for (int first = 0, turn = 0; first < blocks; first += step, turn ^= 1) {
    const int b = first + lane / kSpans, span = lane % kSpans;
    const bool there = b < blocks;
    const DeviceBlock<Block> block = weights[there ? b : 0];
    SpanWords w = {};
    SubScales sub = {};
    if (there) {
      w = Words(block, span);
      if constexpr (kSpans > 1) sub = SubScalesOf(block, span);
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const int64_t k = int64_t{b} * kValues<Block> + span * kSpan;
      const int16_t* x_sums = a.rounded.sums + x_row[r] * (a.cols / 16) + k / 16;
      SpanDots dots = {{0, 0}};
      if (there)
        dots = Dots<kOffset<Block>>(w, a.rounded.values + x_row[r] * a.rounded.stride + k, x_sums);
      if constexpr (kSpans == 1) {
        if (there) {
          terms[turn][r][weight_row][lane] =
              Term32<Block>(BlockScale(block), BlockMin(block),
                            static_cast<float>(dots.run[0] + dots.run[1]), x_sums[0] + x_sums[1]);
        }
      } else {
        int total = 0, mins = 0;
        if (there) {
          total = sub.scale[0] * dots.run[0] + sub.scale[1] * dots.run[1];
          if constexpr (HasMin<Block>) mins = sub.min[0] * x_sums[0] + sub.min[1] * x_sums[1];
        }
        total = SumOfEightLanes(total);
        if constexpr (HasMin<Block>) mins = SumOfEightLanes(mins);
        if (there && span == 0) {
          terms[turn][r][weight_row][lane / kSpans] =
              SuperTerm<Block>(BlockScale(block), BlockMin(block), total, mins);
        }
      }
    }
    __syncthreads();  // terms of this turn are there; those of the last are used up
    if (chains) {
      const int count = blocks - first < step ? blocks - first : step;
      for (int i = 0; i < count; ++i) {
        sum = Fma(chain_scales[first + i], terms[turn][chain_row][chain_out][i], sum);
      }
    }
  }
  if (a.fine) sum += __shfl_xor_sync(kAllLanes, sum, kWeightRows);  // of the row beside
  if (!chains || (a.fine && chain_row % 2 != 0)) return;
  const int n = first_out + chain_out;
  slice.OutRow(a, first_row + chain_row)[n] = slice.WithBias(n, sum);
}

template <class Block, int Rows>
void LaunchRowMatMul(const CudaMatMulArgs& a, CudaStream stream) {
  constexpr int kSpans = kValues<Block> / kSpan;
  const int spans = a.cols / kSpan;
  int lanes = 8;  // no more than there are spans
  while (lanes < spans && lanes < kMostLanes) lanes *= 2;
  static_assert(kSpans <= 8);
  BATON_LAUNCH((RowMatMul<Block, Rows>), MatMulGrid(a, kWeightRows, Rows),
               dim3(kWeightRows * lanes), 0, stream, a);
}

inline constexpr int kFewRows = 4;  // that the kernel above takes at once

template <class Block>
void MatMulFewRows(const CudaMatMulArgs& a, CudaStream stream) {
  if (a.rows == 1) {
    LaunchRowMatMul<Block, 1>(a, stream);
  } else if (a.rows == 2) {  // one row, finely
    LaunchRowMatMul<Block, 2>(a, stream);
  } else {
    LaunchRowMatMul<Block, kFewRows>(a, stream);
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
