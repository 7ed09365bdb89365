// What panels of 256-bit registers share, however they are multiplied: the transpose, and the end
// of a block, where its integer sums become floats. A register holds half h of the 16 rows.
#pragma once

#include "kernels/cpu/avx2/integers.h"
#include "kernels/cpu/panel_layout.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// `words` words of four bytes from each of 16 rows, `stride` bytes apart: word by word, row by row.
inline void TransposeWords(const uint8_t* rows, int64_t stride, int words, uint8_t* out) {
  for (int half = 0; half < 2; ++half, rows += 8 * stride, out += 32) {
    for (int w = 0; w < words; w += 4) {
      __m256i z[4];
      for (int i = 0; i < 4; ++i) {
        z[i] = LoadPair(rows + i * stride + 4 * w, rows + (i + 4) * stride + 4 * w);
      }
      const __m256i l0 = _mm256_unpacklo_epi32(z[0], z[1]), l1 = _mm256_unpacklo_epi32(z[2], z[3]);
      const __m256i h0 = _mm256_unpackhi_epi32(z[0], z[1]), h1 = _mm256_unpackhi_epi32(z[2], z[3]);
      uint8_t* to = out + w * 4 * kPanelRows;
      const auto store = [&](int i, __m256i v) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to + i * 4 * kPanelRows), v);
      };
      store(0, _mm256_unpacklo_epi64(l0, l1));
      store(1, _mm256_unpackhi_epi64(l0, l1));
      store(2, _mm256_unpacklo_epi64(h0, h1));
      store(3, _mm256_unpackhi_epi64(h0, h1));
    }
  }
}

inline __m256i LoadRow(const void* p) { return _mm256_load_si256(static_cast<const __m256i*>(p)); }

// acc += scale * term
inline void AddTerm(float scale, __m256 term, float* acc) {
  _mm256_store_ps(acc, _mm256_fmadd_ps(_mm256_set1_ps(scale), term, _mm256_load_ps(acc)));
}
// What block b adds: `sums` of weights times activations, whose own sums are those of 16 values.
template <class Block>
inline void AddBlock32Term(const Panel& p, int b, int h, __m256i sums,
                           const int16_t* activation_sums, float scale, float* acc) {
  const __m256 d = _mm256_load_ps(p.d[b] + h * 8), s = _mm256_cvtepi32_ps(sums);
  __m256 term;
  if constexpr (HasMin<Block>) {
    const __m256 sum = _mm256_cvtepi32_ps(PairSums(Broadcast4(activation_sums + 2 * b)));
    term = _mm256_fmadd_ps(d, s, _mm256_mul_ps(_mm256_load_ps(p.dmin[b] + h * 8), sum));
  } else {
    term = _mm256_mul_ps(d, s);
  }
  AddTerm(scale, term, acc + h * 8);
}
// The same of a super-block. Without minimums p.mins are what takes the weights' offset off.
template <class Block>
inline void AddSuperBlockTerm(const Panel& p, int h, __m256i sums, const int16_t* activation_sums,
                              float scale, float* acc) {
  const __m256 d = _mm256_load_ps(p.d[0] + h * 8);
  __m256i mins = _mm256_setzero_si256();
  for (int i = 0; i < 8; ++i) {
    const __m256i pair = Broadcast4(activation_sums + 2 * i);
    mins = _mm256_add_epi32(mins, _mm256_madd_epi16(LoadRow(p.mins[i][h * 8]), pair));
  }
  __m256 term;
  if constexpr (HasMin<Block>) {
    const __m256 z = _mm256_mul_ps(_mm256_load_ps(p.dmin[0] + h * 8), _mm256_cvtepi32_ps(mins));
    term = _mm256_fmsub_ps(d, _mm256_cvtepi32_ps(sums), z);
  } else {
    term = _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_add_epi32(sums, mins)));
  }
  AddTerm(scale, term, acc + h * 8);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
