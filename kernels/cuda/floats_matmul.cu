// Products with weights that are floats: each output has eight sums, one a lane (ARITHMETIC.md,
// "Float weights"), so eight lanes make an output and add up their sums at the end.
//
// Tiles of both sides pass through shared memory: loads from device memory are 16 bytes wide, and
// many rows share them.
#include "kernels/cuda/row_matmul.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

constexpr int kFloatThreads = 256;
constexpr int kFloatColumns = 128;              // of a tile
constexpr int kFloatPitch = kFloatColumns + 8;  // floats: four rows' lanes lie in different banks

// What a block of threads makes: its 32 groups of eight lanes are XGroups by WGroups, each with X
// by W outputs, those of a group as far apart as there are groups.
template <int W, int X, int XGroups>
struct FloatShape {
  static constexpr int kW = W, kX = X, kXGroups = XGroups, kWGroups = kFloatThreads / 8 / XGroups;
  static constexpr int kOuts = W * kWGroups, kRows = X * XGroups;
};
using OneRow = FloatShape<1, 1, 1>;
using FewRows = FloatShape<1, 4, 1>;
using ManyRows = FloatShape<4, 4, 4>;

// Eight values from p on, as floats; zeros from `count` on.
template <class Block>
__device__ inline void LoadEight(const uint8_t* p, int count, float* to) {
  constexpr int kBytes = sizeof(Block);
  alignas(16) Block values[8];
  if (count >= 8 && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
#pragma unroll
    for (int i = 0; i < 8 * kBytes / 16; ++i) {
      reinterpret_cast<uint4*>(values)[i] = reinterpret_cast<const uint4*>(p)[i];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = Unpack(values[i], 0);
    return;
  }
  for (int i = 0; i < 8; ++i)
    to[i] = i < count ? Unpack(reinterpret_cast<const Block*>(p)[i], 0) : 0.0f;
}

template <class Block, class Shape>
__global__ void __launch_bounds__(kFloatThreads) FloatMatMul(CudaMatMulArgs a) {
  __shared__ float w_tile[Shape::kOuts][kFloatPitch];
  __shared__ float x_tile[Shape::kRows][kFloatPitch];
  const MatMulSlice slice(a);
  const int first_row = static_cast<int>(blockIdx.y) * Shape::kRows;
  if (first_row >= slice.count) return;
  const int first_out = static_cast<int>(blockIdx.x) * Shape::kOuts;
  const int lane = static_cast<int>(threadIdx.x) % 8, group = static_cast<int>(threadIdx.x) / 8;
  const int x_group = group % Shape::kXGroups, w_group = group / Shape::kXGroups;

  float sums[Shape::kW][Shape::kX] = {};
  for (int k = 0; k < a.cols; k += kFloatColumns) {
    constexpr int kEights = kFloatColumns / 8;
    for (int i = static_cast<int>(threadIdx.x); i < (Shape::kOuts + Shape::kRows) * kEights;
         i += kFloatThreads) {
      const int row = i / kEights, column = k + i % kEights * 8;
      if (column >= a.cols) continue;
      if (row < Shape::kOuts) {
        LoadEight<Block>(slice.WeightRow(a, first_out + row) + column * sizeof(Block),
                         a.cols - column, &w_tile[row][column - k]);
      } else {
        const int x_row = first_row + row - Shape::kOuts;
        const float* from =
            a.x + slice.XRow(a, x_row < slice.count ? x_row : slice.count - 1) * a.x_stride;
        LoadEight<BlockF32>(reinterpret_cast<const uint8_t*>(from + column), a.cols - column,
                            &x_tile[row - Shape::kOuts][column - k]);
      }
    }
    __syncthreads();
    const int count = a.cols - k < kFloatColumns ? a.cols - k : kFloatColumns;
    for (int c = lane; c < (count + 7) / 8 * 8; c += 8) {
      float x[Shape::kX];
#pragma unroll
      for (int j = 0; j < Shape::kX; ++j) x[j] = x_tile[x_group + j * Shape::kXGroups][c];
#pragma unroll
      for (int i = 0; i < Shape::kW; ++i) {
        const float w = w_tile[w_group + i * Shape::kWGroups][c];
#pragma unroll
        for (int j = 0; j < Shape::kX; ++j) sums[i][j] = Fma(w, x[j], sums[i][j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < Shape::kW; ++i) {
#pragma unroll
    for (int j = 0; j < Shape::kX; ++j) {
      float sum = SumOfEight(sums[i][j]);
      const int n = first_out + w_group + i * Shape::kWGroups;
      const int row = first_row + x_group + j * Shape::kXGroups;
      if (lane != 0 || n >= a.outs || row >= slice.count) continue;
      if (a.bias != nullptr) sum += slice.Bias(a, n);
      a.out[slice.OutRow(a, row) * a.out_stride + n] = sum;
    }
  }
}

template <class Block, class Shape>
void LaunchFloatMatMul(const CudaMatMulArgs& a, CudaStream stream) {
  const dim3 grid(CeilDiv(a.outs, Shape::kOuts), CeilDiv(a.rows, Shape::kRows),
                  static_cast<unsigned>(a.slices));
  BATON_LAUNCH((FloatMatMul<Block, Shape>), grid, dim3(kFloatThreads), 0, stream, a);
}

template <class Block>
void FloatMatMulOf(const CudaMatMulArgs& a, CudaStream stream) {
  if (a.rows == 1) return LaunchFloatMatMul<Block, OneRow>(a, stream);
  if (a.rows <= FewRows::kRows) return LaunchFloatMatMul<Block, FewRows>(a, stream);
  LaunchFloatMatMul<Block, ManyRows>(a, stream);
}

}  // namespace

bool MatMulFloats(const CudaMatMulArgs& args, CudaStream stream) {
  switch (args.type) {
#define BATON_CASE(Block)               \
  case Block::kType:                    \
    FloatMatMulOf<Block>(args, stream); \
    return true;
    BATON_FOR_EACH_FLOAT_BLOCK(BATON_CASE)
#undef BATON_CASE
    default:
      return false;
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
