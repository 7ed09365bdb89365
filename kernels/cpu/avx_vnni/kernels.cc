// The AVX-VNNI set, for processors that have it without AVX-512: many rows by panels. Few rows,
// where memory is the bound, are left to the AVX2 set, and what is missing comes from it.
#include "kernels/cpu/avx2/block32_terms.h"
#include "kernels/cpu/avx2/super_block_terms.h"
#include "kernels/cpu/avx_vnni/panel_ops.h"
// The order matters: panels are multiplied by panel_ops.h.
#include "kernels/cpu/fill_matmul.h"
#include "kernels/cpu/panel.h"

namespace baton::kernels {
namespace {

constinit KernelSet below;  // initialized without code of this file's instructions

template <class Block>
void MatMul(const MatMulArgs& a) {
  if (HasRowKernel<Block> && a.rows <= kMostRowsAbreast)
    return below.matmul[static_cast<int>(Block::kType)](a);
  PanelMatMul<Block>(a);
}

#ifdef __AVXVNNI__  // not where the instructions are emulated
int64_t MultiplyRegisters(int64_t rounds) {
  constexpr int kChains = 12;
  __m256i sums[kChains] = {}, weights = _mm256_set1_epi8(1), values = _mm256_set1_epi8(2);
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(weights), "+x"(values));  // else the loop is done beforehand
#pragma GCC unroll 12
    for (__m256i& sum : sums) sum = _mm256_dpbusd_avx_epi32(sum, weights, values);
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
  return rounds * kChains * 32 * 2;
}
#endif

}  // namespace

void FillAvxVnni(KernelSet& set) {
  FillAvx2(below);
  set.name = "avx_vnni";
  FillIntegerMatMuls(set, []<typename Block>() { return MatMul<Block>; });
#ifdef __AVXVNNI__
  set.multiply_registers = MultiplyRegisters;
#endif
}

}  // namespace baton::kernels
