// Products with super-blocks whose integers can be unpacked by words.
#include "kernels/cuda/tile_matmul.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

bool MatMulSuperBlocks(const CudaMatMulArgs& args, CudaStream stream) {
  switch (args.type) {
#define BATON_CASE(Block)          \
  case Block::kType:               \
    MatMulOf<Block>(args, stream); \
    return true;
    BATON_CASE(BlockQ2_K)
    BATON_CASE(BlockQ3_K)
    BATON_CASE(BlockQ4_K)
    BATON_CASE(BlockQ5_K)
    BATON_CASE(BlockQ6_K)
    BATON_CASE(BlockIQ4_XS)
#undef BATON_CASE
    default:
      return false;
  }
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
