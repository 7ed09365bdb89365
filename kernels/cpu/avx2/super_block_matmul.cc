// Products of the linear types with super-blocks.
#include "kernels/cpu/avx2/panel_ops.h"
#include "kernels/cpu/avx2/super_block_terms.h"
// The order matters: panels are multiplied by panel_ops.h.
#include "kernels/cpu/avx2/matmul.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

void FillSuperBlockMatMul(KernelSet& set) {
  FillIntegerMatMul<BlockQ2_K>(set);
  FillIntegerMatMul<BlockQ3_K>(set);
  FillIntegerMatMul<BlockQ4_K>(set);
  FillIntegerMatMul<BlockQ5_K>(set);
  FillIntegerMatMul<BlockQ6_K>(set);
  FillIntegerMatMul<BlockIQ4_XS>(set);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
