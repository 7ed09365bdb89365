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

// One block of each of eight rows.
template <class Block>
using BlockRows = const Block* const (&)[kAbreast];

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
template <class Block, int Rows>
inline void TermsOf(BlockRows<Block> w, ActivationRows<Rows> x, __m256 (&terms)[Rows]) {
  if constexpr (kValues<Block> == 32) {
#pragma GCC unroll 4
    for (int t = 0; t < Rows; ++t) terms[t] = Terms<Block>::Of(w, x[t]);
  } else {
    Terms<Block>::template Of<Rows>(w, x, terms);
  }
}

// Where a group of weight rows stands, and what is fetched meanwhile.
template <class Block>
struct RowGroup {
  const Block* rows[kAbreast];
  int present;
  const uint8_t* next;  // the rows behind it
  int64_t next_step;    // bytes of them fetched with each block; 0: none
};
template <class Block>
inline RowGroup<Block> GroupAt(const MatMulArgs& a, int32_t n) {
  RowGroup<Block> group;
  group.present = a.end - n < kAbreast ? a.end - n : kAbreast;
  for (int i = 0; i < kAbreast; ++i) {  // missing rows repeat the last one
    const int32_t row = n + (i < group.present ? i : group.present - 1);
    group.rows[i] = reinterpret_cast<const Block*>(a.weight + row * a.weight_row_bytes);
  }
  group.next = a.weight + (n + kAbreast) * a.weight_row_bytes;
  group.next_step = n + 2 * kAbreast <= a.end ? kAbreast * sizeof(Block) : 0;
  return group;
}

// Fetches what lies between two lines' addresses: weights stream, so a linear prefetch serves.
inline void FetchUntil(const uint8_t*& line, const uint8_t* end) {
  for (; line < end; line += 64) _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
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
inline void MultiplyRows(const MatMulArgs& a, const RowGroup<Block>& group, int32_t r, int32_t n) {
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
  const Block* rows[kAbreast];
  for (int i = 0; i < kAbreast; ++i) rows[i] = group.rows[i];
  const uint8_t* line = group.next;
  const uint8_t* wanted = group.next;
  for (int32_t b = 0; b < blocks; ++b) {
    FetchUntil(line, wanted += group.next_step);
    __m256 terms[Rows];
    TermsOf<Block, Rows>(rows, x, terms);
    for (int t = 0; t < Rows; ++t) {
      acc[t] = _mm256_fmadd_ps(_mm256_set1_ps(scales[t][b]), terms[t], acc[t]);
      x[t] = {x[t].values + kBlock, x[t].sums + kBlock / 16};
    }
    for (const Block*& row : rows) ++row;
  }
  if (a.fine) {
    if constexpr (Rows == 2)
      StoreAbreast(a, _mm256_add_ps(acc[0], acc[1]), group.present, r / 2, n);
    return;
  }
  for (int t = 0; t < Rows; ++t) StoreAbreast(a, acc[t], group.present, r + t, n);
}

// For so few rows unpacking a panel costs more than it saves: a group of weight rows stays in L1
// while they pass.
inline constexpr int kMostRowsAbreast = 6;

template <class Block>
void RowMatMul(const MatMulArgs& a) {
  for (int32_t n = a.begin; n < a.end; n += kAbreast) {
    RowGroup<Block> group = GroupAt<Block>(a, n);
    int32_t r = 0;
    for (; r + 2 <= a.rows; r += 2) {
      MultiplyRows<Block, 2>(a, group, r, n);
      group.next_step = 0;
    }
    if (r < a.rows) MultiplyRows<Block, 1>(a, group, r, n);
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
