// Products with weights that are floats: each output has eight sums, one a lane (ARITHMETIC.md,
// "Float weights"), so eight lanes make an output and add up their sums at the end.
//
// Tiles of both sides pass through shared memory: loads from device memory are 16 bytes wide and
// many rows share them; those of the next tile are under way while this one is multiplied. There
// the four values that a lane takes from 32 columns lie together, for loads of 16 bytes as well.
#include "kernels/cuda/row_matmul.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

constexpr int kFloatThreads = 256;

// What a block of threads makes: its 32 groups of eight lanes are XGroups by WGroups, each with X
// by W outputs, those of a group as far apart as there are groups.
template <int W, int X, int XGroups, int Columns>
struct FloatShape {
  static constexpr int kW = W, kX = X, kXGroups = XGroups, kWGroups = kFloatThreads / 8 / XGroups;
  static constexpr int kOuts = W * kWGroups, kRows = X * XGroups;
  static constexpr int kColumns = Columns;  // of a tile

  // Of the four groups of a warp two share their rows and two their weights, where there are many
  // of both: what they share is loaded once.
  __device__ static int XGroup(int group) {
    return XGroups == 1 ? 0 : group % 2 + group / 4 % (XGroups / 2) * 2;
  }
  __device__ static int WGroup(int group) {
    return XGroups == 1 ? group : group / 2 % 2 + group / (2 * XGroups) * 2;
  }
};
using OneRow = FloatShape<1, 1, 1, 128>;
using FewRows = FloatShape<1, 4, 1, 128>;
using SomeRows = FloatShape<4, 4, 4, 64>;
using ManyRows = FloatShape<8, 8, 4, 64>;

// Four floats side by side.
struct alignas(16) FourFloats {
  float v[4];
};

// Rows of a tile in shared memory: of 32 columns, the four values (lane, lane + 8, ...) of each
// lane. The pad of each 32 keeps the eights that a warp stores in different banks.
template <int Rows, int Columns>
struct FloatTile {
  FourFloats v[Rows][Columns / 32][8 + 1];

  __device__ FourFloats At(int row, int of_32, int lane) const { return v[row][of_32][lane]; }
};

// A thread's share of a tile on its way to shared memory, eights of neighbouring columns.
template <class Block, int Rows, int Columns>
class FloatTileLoad {
 public:
  // row(i) is where row i of the tile begins; the columns are [first, first + Columns) of `cols`.
  template <class Row>
  __device__ void Start(int first, int cols, const Row& row) {
#pragma unroll
    for (int n = 0; n < kEightsOfThread; ++n) {
      const int i = static_cast<int>(threadIdx.x) + n * kFloatThreads;
      const int column = first + i % kEights * 8;
      if (i < Rows * kEights && column < cols) {
        LoadEight(row(i / kEights) + int64_t{column} * sizeof(Block), cols - column, eights_[n]);
      }
    }
  }
  __device__ void Store(FloatTile<Rows, Columns>& to) const {
#pragma unroll
    for (int n = 0; n < kEightsOfThread; ++n) {
      const int i = static_cast<int>(threadIdx.x) + n * kFloatThreads;
      if (i >= Rows * kEights) continue;
      const int eight = i % kEights;
#pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        to.v[i / kEights][eight / 4][lane].v[eight % 4] = Unpack(eights_[n].v[lane], 0);
      }
    }
  }

 private:
  static constexpr int kEights = Columns / 8;
  static constexpr int kEightsOfThread = (Rows * kEights + kFloatThreads - 1) / kFloatThreads;
  struct alignas(16) Eight {
    Block v[8];
  };

  // Zeros from `count` on.
  __device__ static void LoadEight(const uint8_t* p, int count, Eight& to) {
    if (count >= 8 && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(Eight) / 16); ++i) {
        reinterpret_cast<uint4*>(&to)[i] = reinterpret_cast<const uint4*>(p)[i];
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
      to.v[i] = i < count ? reinterpret_cast<const Block*>(p)[i] : Block{};
  }

  Eight eights_[kEightsOfThread] = {};
};

template <class Shape>
struct FloatSums {
  float v[Shape::kW][Shape::kX] = {};
  int w_group, x_group, lane;

  // Columns [32 * of_32, ...) of the tile, `steps` eights of them.
  template <class WTile, class XTile>
  __device__ void Add(const WTile& w_tile, const XTile& x_tile, int of_32, int steps) {
    FourFloats x[Shape::kX];
#pragma unroll
    for (int j = 0; j < Shape::kX; ++j)
      x[j] = x_tile.At(x_group + j * Shape::kXGroups, of_32, lane);
#pragma unroll
    for (int i = 0; i < Shape::kW; ++i) {
      const FourFloats w = w_tile.At(w_group + i * Shape::kWGroups, of_32, lane);
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        if (step >= steps) break;
#pragma unroll
        for (int j = 0; j < Shape::kX; ++j) v[i][j] = Fma(w.v[step], x[j].v[step], v[i][j]);
      }
    }
  }
};

template <class Block, class Shape>
__global__ void __launch_bounds__(kFloatThreads) FloatMatMul(CudaMatMulArgs a) {
  constexpr int kColumns = Shape::kColumns;
  __shared__ FloatTile<Shape::kOuts, kColumns> w_tile;
  __shared__ FloatTile<Shape::kRows, kColumns> x_tile;
  const MatMulSlice slice(a, Shape::kOuts);
  const int first_row = static_cast<int>(blockIdx.y) * Shape::kRows;
  if (first_row >= slice.count) return;
  const int first_out = slice.first_out;
  const auto weight_row = [&](int i) { return slice.WeightRow(a, first_out + i); };
  const auto x_row = [&](int i) {
    const int row = first_row + i < slice.count ? first_row + i : slice.count - 1;
    return reinterpret_cast<const uint8_t*>(a.x + slice.XRow(a, row) * a.x_stride);
  };
  const int lane = static_cast<int>(threadIdx.x) % 8, group = static_cast<int>(threadIdx.x) / 8;
  const int w_group = Shape::WGroup(group), x_group = Shape::XGroup(group);

  FloatSums<Shape> sums = {.w_group = w_group, .x_group = x_group, .lane = lane};
  FloatTileLoad<Block, Shape::kOuts, kColumns> w_load;
  FloatTileLoad<BlockF32, Shape::kRows, kColumns> x_load;
  w_load.Start(0, a.cols, weight_row);
  x_load.Start(0, a.cols, x_row);
  for (int k = 0; k < a.cols; k += kColumns) {
    w_load.Store(w_tile);
    x_load.Store(x_tile);
    __syncthreads();
    w_load.Start(k + kColumns, a.cols, weight_row);
    x_load.Start(k + kColumns, a.cols, x_row);
    const int eights = (a.cols - k + 7) / 8;
#pragma unroll
    for (int of_32 = 0; of_32 < kColumns / 32; ++of_32) {
      if (eights >= 4 * (of_32 + 1)) {
        sums.Add(w_tile, x_tile, of_32, 4);
      } else {
        sums.Add(w_tile, x_tile, of_32, eights - 4 * of_32);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < Shape::kW; ++i) {
#pragma unroll
    for (int j = 0; j < Shape::kX; ++j) {
      const float sum = SumOfEight(sums.v[i][j]);
      const int n = first_out + w_group + i * Shape::kWGroups;
      const int row = first_row + x_group + j * Shape::kXGroups;
      if (lane != 0 || n >= slice.target.outs || row >= slice.count) continue;
      slice.OutRow(a, row)[n] = slice.WithBias(n, sum);
    }
  }
}

template <class Block, class Shape>
void LaunchFloatMatMul(const CudaMatMulArgs& a, CudaStream stream) {
  BATON_LAUNCH((FloatMatMul<Block, Shape>), MatMulGrid(a, Shape::kOuts, Shape::kRows),
               dim3(kFloatThreads), 0, stream, a);
}

template <class Block>
void FloatMatMulOf(const CudaMatMulArgs& a, CudaStream stream) {
  if (a.rows == 1) return LaunchFloatMatMul<Block, OneRow>(a, stream);
  if (a.rows <= FewRows::kRows) return LaunchFloatMatMul<Block, FewRows>(a, stream);
  if (a.rows <= SomeRows::kRows) return LaunchFloatMatMul<Block, SomeRows>(a, stream);
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
