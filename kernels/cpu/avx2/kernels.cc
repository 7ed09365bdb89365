// The AVX2 + FMA + F16C set.
#include "kernels/cpu/avx2/lanes.h"
#include "kernels/cpu/avx2/panel_ops.h"
// The order matters: what follows is written over Lanes and panel_ops.h.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/avx2/matmul.h"
#include "kernels/cpu/float_matmul.h"
#include "kernels/cpu/float_ops.h"
#include "kernels/kernel_set.h"

namespace baton::kernels {
namespace {

// As panels do it: pairs of products into 16 bits, and added up there.
int64_t MultiplyRegisters(int64_t rounds) {
  constexpr int kChains = 8;
  __m256i sums[kChains] = {}, weights = _mm256_set1_epi8(1), values = _mm256_set1_epi8(2);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
    for (__m256i& sum : sums) {
      Pin(values);  // else the product is made once for all
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, values));
      Pin(sum);
    }
  }
  return rounds * kChains * 32 * 2;
}

}  // namespace

void FillAvx2(KernelSet& set) {
  set.name = "avx2";
  FillFloatOps(set);
  FillAttention(set);
  FillFloatMatMul(set);
  FillBlock32MatMul(set);
  FillSuperBlockMatMul(set);
  FillCodeBookMatMul(set);
  set.multiply_registers = MultiplyRegisters;
}

}  // namespace baton::kernels
