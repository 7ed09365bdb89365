// The AVX-512 + VNNI set: many rows by panels; one row streams as on AVX2, where memory is the
// bound. What is missing comes from the AVX2 set.
#include "kernels/cpu/avx2/block32_terms.h"
#include "kernels/cpu/avx2/super_block_terms.h"
#include "kernels/cpu/avx512/panel_ops.h"
// The order matters: panels are multiplied by panel_ops.h.
#include "kernels/cpu/avx2/matmul.h"
#include "kernels/cpu/fill_matmul.h"

namespace baton::kernels {
namespace {

#ifdef __AVX512VNNI__  // not where the instructions are emulated
int64_t MultiplyRegisters(int64_t rounds) {
  constexpr int kChains = 16;
  __m512i sums[kChains], weights = _mm512_set1_epi32(0x01010101), values = weights;
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(weights), "+v"(values));  // else the loop is done beforehand
#pragma GCC unroll 16
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, weights, values);
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
  return rounds * kChains * 64 * 2;
}
#endif

}  // namespace

void FillAvx512(KernelSet& set) {
  set.name = "avx512";
  FillIntegerMatMuls(set, []<typename Block>() { return IntegerMatMul<Block>; });
#ifdef __AVX512VNNI__
  set.multiply_registers = MultiplyRegisters;
#endif
}

}  // namespace baton::kernels
