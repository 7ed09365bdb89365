// The NEON set, with the dot product of ARMv8.2.
#include "kernels/cpu/neon/lanes.h"
#include "kernels/cpu/neon/panel_ops.h"
// The order matters: what follows is written over Lanes and panel_ops.h.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/fill_matmul.h"
#include "kernels/cpu/float_matmul.h"
#include "kernels/cpu/float_ops.h"
#include "kernels/cpu/panel.h"

namespace baton::kernels {
namespace {

int64_t MultiplyRegisters(int64_t rounds) {
  constexpr int kChains = 16;
  int32x4_t sums[kChains] = {};
  int8x16_t weights = vdupq_n_s8(1), values = vdupq_n_s8(2);
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+w"(weights), "+w"(values));  // else the loop is done beforehand
    for (int32x4_t& sum : sums) sum = vdotq_s32(sum, weights, values);
  }
  for (int32x4_t& sum : sums) asm volatile("" : "+w"(sum));
  return rounds * kChains * 16 * 2;
}

}  // namespace

void FillNeon(KernelSet& set) {
  set.name = "neon";
  FillFloatOps(set);
  FillAttention(set);
  FillFloatMatMul(set);
  FillIntegerMatMuls(set, []<typename Block>() { return PanelMatMul<Block>; });
  set.multiply_registers = MultiplyRegisters;
}

}  // namespace baton::kernels
