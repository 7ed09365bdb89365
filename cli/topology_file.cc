#include "cli/topology_file.h"

#include <algorithm>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "cli/model_source.h"

namespace baton::cli {

absl::StatusOr<coordinator::Topology> ReadTopology(const std::string& path) {
  if (std::error_code ignored; !std::filesystem::exists(path, ignored))
    return NotFound("{}: no such file", path);
  auto topology = coordinator::LoadTopology(path);
  if (!topology.ok()) return AsBadData(topology.status());
  if (IsModelName(topology->model)) {
    ASSIGN_OR_RETURN(topology->model, FindModel(topology->model));
  } else if (std::error_code ignored; !std::filesystem::exists(topology->model, ignored)) {
    const std::string name = std::filesystem::path(topology->model).filename();
    if (auto cached = FindModel(name); cached.ok()) topology->model = *cached;
  }
  return topology;
}

absl::Status SetAddresses(const std::vector<std::string>& addresses,
                          coordinator::Topology& topology) {
  for (const std::string& text : addresses) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    bool found = false;
    for (auto* workers : {&topology.workers, &topology.spares}) {
      for (coordinator::WorkerEntry& entry : *workers) {
        if (entry.name != name || equals == std::string::npos) continue;
        entry.address = text.substr(equals + 1);
        found = true;
      }
    }
    if (!found)
      return UsageError("--address: got {}, expected NAME=HOST:PORT of a worker in the file", text);
  }
  return absl::OkStatus();
}

wire::Security SecurityOf(const coordinator::Topology& topology) {
  if (!topology.tls) return {};
  return {
      .ca_file = topology.tls->ca, .cert_file = topology.tls->cert, .key_file = topology.tls->key};
}

}  // namespace baton::cli
