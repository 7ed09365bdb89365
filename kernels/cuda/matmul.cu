// The way from a weight's type to the kernels of its products.
#include "kernels/cuda/parts.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

constexpr bool HasMatMul(QuantType type) {
  return TraitsOf(type).activation != ActivationFormat::kNone;
}
void MatMul(const CudaMatMulArgs& args, CudaStream stream) {
  MatMulBlocks32(args, stream) || MatMulSuperBlocks(args, stream) ||
      MatMulCodeBooks(args, stream) || MatMulFloats(args, stream);
}

}  // namespace

void FillCudaMatMul(CudaApi& api) {
  api.has_matmul = HasMatMul;
  api.matmul = MatMul;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
