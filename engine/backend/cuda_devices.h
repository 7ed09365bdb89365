// Which CUDA devices there are, and which of them a flag means.
//
// CUDA's own order and CUDA_VISIBLE_DEVICES are respected: index 0 is the first device that CUDA
// shows this process. Listing makes no context on any device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "kernels/cuda/cuda_api.h"

namespace baton::engine {

// CUDA as this build has it; null where it was built without.
const kernels::CudaApi* BuiltInCuda();

// The devices, in order. FailedPrecondition says why there are none: the driver's and the runtime's
// versions, what CUDA says.
absl::StatusOr<std::vector<kernels::CudaDevice>> ListCudaDevices(const kernels::CudaApi& cuda);

// Whether kernels compiled for `architectures` ("75,80,90": the last also as an intermediate
// language, for what comes after it) run on a device of this compute capability.
bool HasKernelsFor(std::string_view architectures, int major, int minor);
// FailedPrecondition names the device's capability and what the kernels were built for.
absl::Status CheckKernels(const kernels::CudaApi& cuda, const kernels::CudaDevice& device);

// Index of the device that "cuda", "cuda:N", "cuda:GPU-UUID" or "GPU-UUID" means; a UUID may be cut
// short. InvalidArgument lists what there is.
absl::StatusOr<int> FindCudaDevice(std::string_view wanted,
                                   const std::vector<kernels::CudaDevice>& devices);

// "cuda:0  NVIDIA H200, compute capability 9.0, 0000:01:00.0, GPU-…"
std::string Describe(int index, const kernels::CudaDevice& device);

}  // namespace baton::engine
