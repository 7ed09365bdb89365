// Products with blocks of 32 values.
#include "kernels/cuda/tile_matmul.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

bool MatMulBlocks32(const CudaMatMulArgs& args, CudaStream stream) {
  switch (args.type) {
#define BATON_CASE(Block)          \
  case Block::kType:               \
    MatMulOf<Block>(args, stream); \
    return true;
    BATON_FOR_EACH_BLOCK32(BATON_CASE)
#undef BATON_CASE
    default:
      return false;
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
