// The parts of the table in cuda_api.h, each filled in by its own .cu file.
#pragma once

#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/launch.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

void FillCudaRuntime(CudaApi& api);
void FillCudaMatMul(CudaApi& api);
void FillCudaRows(CudaApi& api);
void FillCudaAttention(CudaApi& api);
void FillCudaExperts(CudaApi& api);
void FillCudaLogits(CudaApi& api);

// Products of the types of each family; types of others are left alone.
bool MatMulBlocks32(const CudaMatMulArgs& args, CudaStream stream);
bool MatMulSuperBlocks(const CudaMatMulArgs& args, CudaStream stream);
bool MatMulCodeBooks(const CudaMatMulArgs& args, CudaStream stream);
bool MatMulFloats(const CudaMatMulArgs& args, CudaStream stream);

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
