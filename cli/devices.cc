// baton devices: what this machine can compute with.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "engine/backend/cuda_devices.h"
#include "engine/base/thread_pool.h"
#include "kernels/cpu/dispatch.h"
#include "worker/host_info.h"

namespace baton::cli {
namespace {

nlohmann::ordered_json ToJson(int index, const kernels::CudaDevice& device) {
  return {{"device", fmt::format("cuda:{}", index)},
          {"name", device.name},
          {"uuid", device.uuid},
          {"bus_id", device.bus_id},
          {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
          {"memory_bytes", device.memory_bytes},
          {"supported", engine::CheckKernels(*engine::BuiltInCuda(), device).ok()}};
}

// What there is of CUDA, or why there is nothing.
absl::StatusOr<std::vector<kernels::CudaDevice>> CudaDevices() {
  const kernels::CudaApi* cuda = engine::BuiltInCuda();
  if (cuda == nullptr) return FailedPrecondition("CUDA: this build is without it");
  return engine::ListCudaDevices(*cuda);
}

}  // namespace

CommandBody DefineDevices(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "One JSON document");
  return [json]() -> absl::Status {
    std::vector<std::string> isas;
    for (const kernels::Isa& isa : kernels::KnownIsas()) {
      if (isa.supported) isas.push_back(isa.name);
    }
    const int threads = engine::AvailableCpus();
    const worker::MemoryInfo memory = worker::HostMemory();
    const auto cuda = CudaDevices();
    if (*json) {
      auto devices = nlohmann::ordered_json::array();
      devices.push_back({{"device", "cpu"},
                         {"threads", threads},
                         {"instruction_sets", isas},
                         {"memory_bytes", memory.total_bytes},
                         {"available_bytes", memory.available_bytes}});
      for (size_t i = 0; cuda.ok() && i < cuda->size(); ++i)
        devices.push_back(ToJson(static_cast<int>(i), (*cuda)[i]));
      return PrintJson({{"devices", std::move(devices)}});
    }
    constexpr double kGiB = 1 << 30;
    std::string text = fmt::format("cpu     {} threads, {}, {:.1f} of {:.1f} GiB free\n", threads,
                                   isas.back(), static_cast<double>(memory.available_bytes) / kGiB,
                                   static_cast<double>(memory.total_bytes) / kGiB);
    if (!cuda.ok()) return Print(text + fmt::format("({})\n", Message(cuda.status())));
    for (size_t i = 0; i < cuda->size(); ++i) {
      const kernels::CudaDevice& device = (*cuda)[i];
      const absl::Status usable = engine::CheckKernels(*engine::BuiltInCuda(), device);
      text += engine::Describe(static_cast<int>(i), device);
      text += usable.ok() ? "\n" : fmt::format(" ({})\n", Message(usable));
    }
    return Print(text);
  };
}

}  // namespace baton::cli
