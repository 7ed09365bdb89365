// Products of types with blocks of 32.
#include "kernels/cpu/avx2/block32_terms.h"
#include "kernels/cpu/avx2/panel_ops.h"
// The order matters: panels are multiplied by panel_ops.h.
#include "kernels/cpu/avx2/matmul.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

void FillBlock32MatMul(KernelSet& set) {
  FillIntegerMatMul<BlockQ4_0>(set);
  FillIntegerMatMul<BlockQ4_1>(set);
  FillIntegerMatMul<BlockQ5_0>(set);
  FillIntegerMatMul<BlockQ5_1>(set);
  FillIntegerMatMul<BlockQ8_0>(set);
  FillIntegerMatMul<BlockIQ4_NL>(set);
  FillIntegerMatMul<BlockMXFP4>(set);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
