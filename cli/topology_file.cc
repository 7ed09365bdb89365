#include "cli/topology_file.h"

#include <algorithm>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "cli/model_source.h"

namespace baton::cli {
namespace {

constexpr std::string_view kCacheOverSsh = ".cache/baton/models";  // from the home folder

bool AllAreHere(const coordinator::Topology& topology) {
  const auto here = [](const coordinator::WorkerEntry& entry) { return entry.launch == "local"; };
  return std::ranges::all_of(topology.workers, here) && std::ranges::all_of(topology.spares, here);
}

// Hosts that `baton up` reaches keep fetched parts in their own cache, where nothing else is said.
void SetPartFolders(const std::string& folder, std::vector<coordinator::WorkerEntry>& workers) {
  for (coordinator::WorkerEntry& entry : workers) {
    if (!entry.models.empty() || entry.launch == "none") continue;
    const std::string cache =
        entry.launch == "local" ? ModelCacheDir() : std::string(kCacheOverSsh);
    entry.models = cache + "/" + folder;
  }
}

absl::Status FindPublished(ModelUse use, coordinator::Topology& topology) {
  if (!IsHubName(topology.model) || (use == ModelUse::kWeights && AllAreHere(topology))) {
    ASSIGN_OR_RETURN(topology.model, FindModel(topology.model));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const HubModel model, FetchHeaders(topology.model, ModelCacheDir()));
  topology.model = model.path;
  topology.hub = model.name;
  SetPartFolders(model.folder, topology.workers);
  SetPartFolders(model.folder, topology.spares);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<coordinator::Topology> ReadTopology(const std::string& path, ModelUse use) {
  if (std::error_code ignored; !std::filesystem::exists(path, ignored))
    return NotFound("{}: no such file", path);
  auto topology = coordinator::LoadTopology(path);
  if (!topology.ok()) return AsBadData(topology.status());
  if (IsModelName(topology->model)) {
    RETURN_IF_ERROR(FindPublished(use, *topology));
  } else if (std::error_code ignored; !std::filesystem::exists(topology->model, ignored)) {
    const std::string name = std::filesystem::path(topology->model).filename();
    if (auto cached = FindModel(name); cached.ok()) topology->model = *cached;
  }
  return topology;
}

absl::Status SetAddresses(const std::vector<std::string>& addresses,
                          coordinator::Topology& topology, bool ignore_unknown) {
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
    if (!found && !ignore_unknown)
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
