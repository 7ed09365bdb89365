// Products of code book and ternary types.
#include "kernels/cpu/avx2/panel_ops.h"
// The order matters: panels are multiplied by panel_ops.h.
#include "kernels/cpu/avx2/matmul.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

void FillCodeBookMatMul(KernelSet& set) {
  FillIntegerMatMul<BlockIQ2_XXS>(set);
  FillIntegerMatMul<BlockIQ2_XS>(set);
  FillIntegerMatMul<BlockIQ2_S>(set);
  FillIntegerMatMul<BlockIQ3_XXS>(set);
  FillIntegerMatMul<BlockIQ3_S>(set);
  FillIntegerMatMul<BlockIQ1_S>(set);
  FillIntegerMatMul<BlockIQ1_M>(set);
  FillIntegerMatMul<BlockTQ1_0>(set);
  FillIntegerMatMul<BlockTQ2_0>(set);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
