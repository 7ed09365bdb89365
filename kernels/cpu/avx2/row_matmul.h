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

// Terms<Block>::Of: what the blocks of eight rows add to their outputs, but for the activations'
// scale.
template <class Block>
struct Terms;

// The rows after these, a share of them for each block: they lie straight behind, so that a linear
// prefetch serves.
inline void PrefetchShare(const uint8_t* begin, int64_t bytes, int32_t part, int32_t parts) {
  const int64_t first = bytes * part / parts / 64 * 64, last = bytes * (part + 1) / parts;
  for (int64_t at = first; at < last; at += 64)
    _mm_prefetch(reinterpret_cast<const char*>(begin + at), _MM_HINT_T0);
}

// Where a group of weight rows stands, and what is fetched meanwhile.
template <class Block>
struct RowGroup {
  const Block* rows[kAbreast];
  int present;
  const uint8_t* next;  // the rows behind it
  int64_t next_bytes;
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
  group.next_bytes = n + 2 * kAbreast <= a.end ? kAbreast * a.weight_row_bytes : 0;
  return group;
}

// A group of weight rows times activation row r.
template <class Block>
inline void MultiplyRows(const MatMulArgs& a, const RowGroup<Block>& group, int32_t r, int32_t n) {
  constexpr int kBlock = kValues<Block>;
  const int32_t blocks = a.cols / kBlock;
  const int64_t x = XRow(a, r);
  const int8_t* values = a.rounded.values + x * a.rounded.stride;
  const float* scales = a.rounded.scales + x * blocks;
  const int16_t* sums = a.rounded.sums + x * (a.cols / 16);
  const Block* rows[kAbreast];
  for (int i = 0; i < kAbreast; ++i) rows[i] = group.rows[i];
  __m256 acc = _mm256_setzero_ps();
  for (int32_t b = 0; b < blocks; ++b) {
    PrefetchShare(group.next, group.next_bytes, r * blocks + b, a.rows * blocks);
    const __m256 term = Terms<Block>::Of(rows, {values + b * kBlock, sums + b * (kBlock / 16)});
    acc = _mm256_fmadd_ps(_mm256_set1_ps(scales[b]), term, acc);
    for (const Block*& row : rows) ++row;
  }
  float results[kAbreast];
  _mm256_storeu_ps(results, acc);
  float* out = OutRow(a, r);
  for (int i = 0; i < group.present; ++i) {
    out[n + i] = a.bias != nullptr ? results[i] + a.bias[n + i] : results[i];
  }
}

// For so few rows unpacking a panel costs more than it saves: a group of weight rows stays in L1
// while they pass.
inline constexpr int kMostRowsAbreast = 3;

template <class Block>
void RowMatMul(const MatMulArgs& a) {
  for (int32_t n = a.begin; n < a.end; n += kAbreast) {
    const RowGroup<Block> group = GroupAt<Block>(a, n);
    for (int32_t r = 0; r < a.rows; ++r) MultiplyRows(a, group, r, n);
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
