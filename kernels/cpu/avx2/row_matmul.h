// Matmul for few activation rows (decode): weights stream from memory once, eight rows abreast. The
// lanes of a register are values of a weight row until a block's integer sum is complete; then they
// are the eight rows.
#pragma once

#include "kernels/cpu/avx2/integers.h"
#include "kernels/kernel_set.h"
#include "kernels/unpack.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kAbreast = 8;  // weight rows

// One block of each of eight rows. A step between them costs fewer registers than eight pointers.
template <class Block>
struct BlockRows {
  const uint8_t* first;
  int64_t row_bytes;
  const uint8_t* next;  // as many bytes of the rows behind them

  const Block* operator[](int i) const {
    return reinterpret_cast<const Block*>(first + i * row_bytes);
  }
  // Fetches share i of `next`: weights stream, so a linear prefetch serves. Spread over the work of
  // a block, as more at a time than the processor keeps track of would stop it.
  void Fetch(int i, int shares = kAbreast) const {
    const int bytes = kAbreast * static_cast<int>(sizeof(Block)) / shares;
#pragma GCC unroll 8
    for (int at = 0; at < bytes; at += 64)
      _mm_prefetch(reinterpret_cast<const char*>(next + i * bytes + at), _MM_HINT_T0);
  }
};

// Half-precision numbers of eight rows.
template <class Block, class Field>
inline __m256 LoadHalves(BlockRows<Block> w, Field field) {
  const auto at = [&](int i) { return static_cast<int16_t>(Load2(field(*w[i]))); };
  return _mm256_cvtph_ps(_mm_setr_epi16(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
}
template <class Block>
inline __m256 LoadScales(BlockRows<Block> w) {
  return LoadHalves<Block>(w, [](const Block& b) { return b.d; });
}

// The activations of one block.
struct BlockActivations {
  const int8_t* values;
  const int16_t* sums;  // of 16 values
};

template <int Rows>
using ActivationRows = const BlockActivations (&)[Rows];

// Terms<Block>::Of: what the blocks of eight rows add to their outputs, but for the activations'
// scale. A super-block's terms are those of some activation rows, which share its unpacking; one of
// 32 values is so short that the compiler sees for itself what they share.
template <class Block>
struct Terms;
template <class Block>
concept HasRowKernel = requires {
  sizeof(Terms<Block>);
};
template <class Block, int Rows>
inline void TermsOf(BlockRows<Block> w, ActivationRows<Rows> x, __m256 (&terms)[Rows]) {
  if constexpr (kValues<Block> == 32) {
    w.Fetch(0, 1);
#pragma GCC unroll 4
    for (int t = 0; t < Rows; ++t) terms[t] = Terms<Block>::Of(w, x[t]);
  } else {
    Terms<Block>::template Of<Rows>(w, x, terms);
  }
}

// Where a group of weight rows stands, and what is fetched meanwhile.
template <class Block>
struct RowGroup {
  BlockRows<Block> rows;
  int32_t n;          // of the first row
  int present;        // rows whose results count
  int64_t next_step;  // bytes of the rows behind it fetched with each block; 0: none
};
// The last rows of many are those that are left and some before them once more, with equal results;
// of fewer than eight, each stands alone.
template <class Block>
inline RowGroup<Block> GroupAt(const MatMulArgs& a, int32_t n) {
  RowGroup<Block> group;
  group.rows.row_bytes = a.weight_row_bytes;
  group.n = n;
  group.present = kAbreast;
  if (a.end - n < kAbreast) {
    if (a.end - a.begin >= kAbreast) {
      group.n = a.end - kAbreast;
    } else {
      group.rows.row_bytes = 0;
      group.present = 1;
    }
  }
  group.rows.first = a.weight + group.n * a.weight_row_bytes;
  group.rows.next = group.rows.first + kAbreast * a.weight_row_bytes;
  group.next_step = n + 2 * kAbreast <= a.end ? kAbreast * sizeof(Block) : 0;
  return group;
}

inline void StoreAbreast(const MatMulArgs& a, __m256 sums, int present, int32_t r, int32_t n) {
  float results[kAbreast];
  _mm256_storeu_ps(results, sums);
  float* out = OutRow(a, r) + n;
  for (int i = 0; i < present; ++i)
    out[i] = a.bias != nullptr ? results[i] + a.bias[n + i] : results[i];
}

// A group of weight rows times activation rows [r, r + Rows).
template <class Block, int Rows>
inline void MultiplyRows(const MatMulArgs& a, const RowGroup<Block>& group, int32_t r) {
  constexpr int kBlock = kValues<Block>;
  const int32_t blocks = a.cols / kBlock;
  BlockActivations x[Rows];
  const float* scales[Rows];
  __m256 acc[Rows];
  for (int t = 0; t < Rows; ++t) {
    const int64_t row = XRow(a, r + t);
    x[t] = {a.rounded.values + row * a.rounded.stride, a.rounded.sums + row * (a.cols / 16)};
    scales[t] = a.rounded.scales + row * blocks;
    acc[t] = _mm256_setzero_ps();
  }
  BlockRows<Block> rows = group.rows;
  for (int32_t b = 0; b < blocks; ++b) {
    __m256 terms[Rows];
    TermsOf<Block, Rows>(rows, x, terms);
    for (int t = 0; t < Rows; ++t) {
      acc[t] = _mm256_fmadd_ps(_mm256_set1_ps(scales[t][b]), terms[t], acc[t]);
      x[t] = {x[t].values + kBlock, x[t].sums + kBlock / 16};
    }
    rows.first += sizeof(Block);
    rows.next += group.next_step;
  }
  if (a.fine) {
    if constexpr (Rows == 2)
      StoreAbreast(a, _mm256_add_ps(acc[0], acc[1]), group.present, r / 2, group.n);
    return;
  }
  for (int t = 0; t < Rows; ++t) StoreAbreast(a, acc[t], group.present, r + t, group.n);
}

// For so few rows unpacking a panel costs more than it saves: a group of weight rows stays in L1
// while they pass.
inline constexpr int kMostRowsAbreast = 6;

template <class Block>
void RowMatMul(const MatMulArgs& a) {
  for (int32_t n = a.begin; n < a.end;) {
    RowGroup<Block> group = GroupAt<Block>(a, n);
    int32_t r = 0;
    for (; r + 2 <= a.rows; r += 2) {
      MultiplyRows<Block, 2>(a, group, r);
      group.next_step = 0;
    }
    if (r < a.rows) MultiplyRows<Block, 1>(a, group, r);
    n = group.n + group.present;
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
