// The CUDA that the engine's tests run on: the emulation, or with BATON_TEST_CUDA=device the one
// that is built in, on a machine with a GPU (scripts/gpu_check.sh).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/backend/cuda_devices.h"
#include "tests/support/emulated_cuda.h"

namespace baton::testing {

inline const kernels::CudaApi& TestedCuda() {
  const char* wanted = std::getenv("BATON_TEST_CUDA");
  if (wanted == nullptr || std::string_view(wanted) != "device") return EmulatedCuda();
  if (engine::BuiltInCuda() != nullptr) return *engine::BuiltInCuda();
  std::fprintf(stderr, "BATON_TEST_CUDA=device: this build is without CUDA\n");
  std::abort();
}

}  // namespace baton::testing
