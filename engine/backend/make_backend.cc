#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cuda_backend.h"
#include "engine/backend/cuda_devices.h"
#include "kernels/cpu/dispatch.h"

namespace baton::engine {
namespace {

absl::StatusOr<const kernels::KernelSet*> ChooseKernels() {
  const char* forced = std::getenv("BATON_ISA");
  const std::string_view name = forced != nullptr ? forced : "";
  if (const kernels::KernelSet* set = kernels::FindKernelSet(name); set != nullptr) return set;
  std::string known;
  for (const kernels::Isa& isa : kernels::KnownIsas()) {
    if (isa.supported) known += fmt::format("{}{}", known.empty() ? "" : ", ", isa.name);
  }
  return InvalidArgument("BATON_ISA: got '{}', this machine has: {}", name, known);
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCpu(int threads) {
  ASSIGN_OR_RETURN(const kernels::KernelSet* kernels, ChooseKernels());
  return std::make_unique<CpuBackend>(kernels, threads > 0 ? threads : AvailableCpus());
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(std::string_view device) {
  const kernels::CudaApi* cuda = BuiltInCuda();
  if (cuda == nullptr) {
    return InvalidArgument("device '{}': this build is without CUDA (-DBATON_CUDA=ON); it has: {}",
                           device, "auto, cpu");
  }
  ASSIGN_OR_RETURN(const std::vector<kernels::CudaDevice> devices, ListCudaDevices(*cuda));
  ASSIGN_OR_RETURN(const int index, FindCudaDevice(device, devices));
  ASSIGN_OR_RETURN(auto backend, CudaBackend::Open(*cuda, index));
  return backend;
}

// A machine with an NVIDIA driver wants its device used; on others there is nothing to warn of.
bool HasNvidiaDriver() { return access("/proc/driver/nvidia/version", F_OK) == 0; }

absl::StatusOr<std::unique_ptr<Backend>> MakeBest(int threads) {
  if (BuiltInCuda() != nullptr) {
    auto backend = MakeCuda("cuda");
    if (backend.ok()) return backend;
    if (HasNvidiaDriver()) {
      fmt::print(stderr, "baton: warning: computing on the CPU: {}\n", Message(backend.status()));
    }
  }
  return MakeCpu(threads);
}

}  // namespace

const kernels::CudaApi* BuiltInCuda() {
#ifdef BATON_WITH_CUDA
  static const kernels::CudaApi api = [] {
    kernels::CudaApi filled;
    kernels::FillCuda(filled);
    return filled;
  }();
  return &api;
#else
  return nullptr;
#endif
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options) {
  if (options.threads < 0)
    return InvalidArgument("threads: got {}, expected 0 or more", options.threads);
  if (options.device == "auto") return MakeBest(options.threads);
  if (options.device == "cpu") return MakeCpu(options.threads);
  if (options.device == "cuda" || options.device.starts_with("cuda:") ||
      options.device.starts_with("GPU-")) {
    return MakeCuda(options.device);
  }
  return InvalidArgument("device '{}': expected auto, cpu, cuda, cuda:N or cuda:GPU-UUID",
                         options.device);
}

}  // namespace baton::engine
