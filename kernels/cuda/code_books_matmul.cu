// Products with the types that look each value up: a few rows at a time, however many there are.
#include "kernels/cuda/row_matmul.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

bool MatMulCodeBooks(const CudaMatMulArgs& args, CudaStream stream) {
  switch (args.type) {
#define BATON_CASE(Block)               \
  case Block::kType:                    \
    MatMulFewRows<Block>(args, stream); \
    return true;
    BATON_CASE(BlockIQ2_XXS)
    BATON_CASE(BlockIQ2_XS)
    BATON_CASE(BlockIQ2_S)
    BATON_CASE(BlockIQ3_XXS)
    BATON_CASE(BlockIQ3_S)
    BATON_CASE(BlockIQ1_S)
    BATON_CASE(BlockIQ1_M)
    BATON_CASE(BlockTQ1_0)
    BATON_CASE(BlockTQ2_0)
#undef BATON_CASE
    default:
      return false;
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
