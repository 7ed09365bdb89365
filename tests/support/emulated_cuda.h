// The table of CUDA's functions whose kernels run on the CPU.
#pragma once

#include "kernels/cuda/cuda_api.h"

namespace baton::kernels {

void FillCudaEmulated(CudaApi& api);

}  // namespace baton::kernels

namespace baton::testing {

inline const kernels::CudaApi& EmulatedCuda() {
  static const kernels::CudaApi api = [] {
    kernels::CudaApi filled;
    kernels::FillCudaEmulated(filled);
    return filled;
  }();
  return api;
}

}  // namespace baton::testing
