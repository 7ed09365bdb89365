// Matmul with weights that are floats (F32, F16, BF16), written once over Lanes: each output has
// eight sums, lane l adding up the k with k mod 8 = l, and adds them up as Lanes::Sum says
// (ARITHMETIC.md, "Float weights").
#pragma once

#include "kernels/cpu/float_ops.h"
#include "kernels/unpack.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class Block>
inline Lanes LoadWeights(const Block* w, int n) {
  if constexpr (Block::kType == QuantType::kF16) {
    if (n == Lanes::kSize) return Lanes::LoadHalves(reinterpret_cast<const uint16_t*>(w));
  }
  if constexpr (Block::kType == QuantType::kF32) {
    if (n == Lanes::kSize) return Lanes::Load(reinterpret_cast<const float*>(w));
  }
  if constexpr (Block::kType == QuantType::kBF16) {
    if (n == Lanes::kSize) return Lanes::LoadBfloat16s(reinterpret_cast<const uint16_t*>(w));
  }
  float values[Lanes::kSize] = {};
  for (int i = 0; i < n; ++i) values[i] = Unpack(w[i], 0);
  return Lanes::Load(values);
}

// Outputs of W weight rows and X activation rows, starting at n and r.
template <class Block, int W, int X>
inline void FloatTile(const MatMulArgs& a, int32_t n, int32_t r) {
  const Block* w[W];
  const float* x[X];
  Lanes sums[W][X];
  for (int i = 0; i < W; ++i)
    w[i] = reinterpret_cast<const Block*>(a.weight + (n + i) * a.weight_row_bytes);
  for (int j = 0; j < X; ++j) x[j] = a.x + XRow(a, r + j) * a.x_stride;
  for (auto& row : sums) {
    for (Lanes& sum : row) sum = Lanes(0.0f);
  }
  ForLanes(a.cols, [&](int32_t k, int count) {
    Lanes xs[X];
    for (int j = 0; j < X; ++j) xs[j] = LoadUpTo(x[j] + k, count);
    for (int i = 0; i < W; ++i) {
      const Lanes ws = LoadWeights(w[i] + k, count);
      for (int j = 0; j < X; ++j) sums[i][j] = Fma(ws, xs[j], sums[i][j]);
    }
  });
  for (int j = 0; j < X; ++j) {
    float* out = OutRow(a, r + j) + n;
    for (int i = 0; i < W; ++i)
      out[i] = sums[i][j].Sum() + (a.bias != nullptr ? a.bias[n + i] : 0.0f);
  }
}

// Weight rows in turn, each kept in cache for all activation rows.
template <class Block>
void FloatMatMul(const MatMulArgs& a) {
  int32_t n = a.begin;
  for (; n + 4 <= a.end; n += 4) {
    int32_t r = 0;
    for (; r + 2 <= a.rows; r += 2) FloatTile<Block, 4, 2>(a, n, r);
    for (; r < a.rows; ++r) FloatTile<Block, 4, 1>(a, n, r);
  }
  for (; n < a.end; ++n) {
    for (int32_t r = 0; r < a.rows; ++r) FloatTile<Block, 1, 1>(a, n, r);
  }
}

inline void FillFloatMatMul(KernelSet& set) {
#define BATON_FILL_FLOAT(Block) set.matmul[static_cast<int>(Block::kType)] = FloatMatMul<Block>;
  BATON_FOR_EACH_FLOAT_BLOCK(BATON_FILL_FLOAT)
#undef BATON_FILL_FLOAT
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
