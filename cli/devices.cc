// baton devices: what this machine can compute with.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "engine/base/thread_pool.h"
#include "kernels/cpu/dispatch.h"
#include "worker/host_info.h"

namespace baton::cli {

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
    if (*json) {
      return PrintJson({{"devices",
                         {{{"device", "cpu"},
                           {"threads", threads},
                           {"instruction_sets", isas},
                           {"memory_bytes", memory.total_bytes},
                           {"available_bytes", memory.available_bytes}}}}});
    }
    constexpr double kGiB = 1 << 30;
    return Print(fmt::format("cpu     {} threads, {}, {:.1f} of {:.1f} GiB free\n", threads,
                             isas.back(), static_cast<double>(memory.available_bytes) / kGiB,
                             static_cast<double>(memory.total_bytes) / kGiB));
  };
}

}  // namespace baton::cli
