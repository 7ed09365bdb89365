#include <cstdlib>
#include <string>

#include "engine/backend/cpu_backend.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options) {
  if (options.device != "auto" && options.device != "cpu") {
    return InvalidArgument("device '{}': this build has: auto, cpu", options.device);
  }
  if (options.threads < 0)
    return InvalidArgument("threads: got {}, expected 0 or more", options.threads);
  ASSIGN_OR_RETURN(const kernels::KernelSet* kernels, ChooseKernels());
  const int threads = options.threads > 0 ? options.threads : AvailableCpus();
  return std::make_unique<CpuBackend>(kernels, threads);
}

}  // namespace baton::engine
