// baton plan: who would get which layers and why, from headers alone.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/topology_file.h"
#include "coordinator/model_placer.h"

namespace baton::cli {
namespace {

struct PlanFlags {
  std::string topology;
  std::vector<std::string> without;
  int context = 0;
  int sequences = 0;
  bool json = false;
};

// The topology as it would be. Ranges that were given to all workers do not fit fewer of them.
absl::StatusOr<coordinator::Topology> WhatIf(const PlanFlags& flags) {
  ASSIGN_OR_RETURN(coordinator::Topology topology,
                   ReadTopology(flags.topology, ModelUse::kHeaders));
  if (flags.context > 0) topology.context = flags.context;
  if (flags.sequences > 0) topology.sequences = flags.sequences;
  for (const std::string& name : flags.without) {
    const auto named = [&](const coordinator::WorkerEntry& entry) { return entry.name == name; };
    if (std::erase_if(topology.workers, named) == 0)
      return UsageError("--without: got {}, which is no worker of {}", name, flags.topology);
    std::erase_if(topology.links, [&](const coordinator::LinkEntry& link) {
      return link.from == name || link.to == name;
    });
  }
  if (topology.workers.empty()) return UsageError("--without: no worker is left");
  for (coordinator::WorkerEntry& entry : topology.workers) {
    if (flags.without.empty()) break;
    entry.layers.reset();
    entry.num_layers.reset();
  }
  return topology;
}

absl::Status Run(const PlanFlags& flags) {
  ASSIGN_OR_RETURN(const coordinator::Topology topology, WhatIf(flags));
  const auto planned = coordinator::PlanOffline(topology);
  if (!planned.ok()) return AsBadData(planned.status());
  // What does not fit is shown all the same: the table says by how much.
  RETURN_IF_ERROR(flags.json ? PrintJson(coordinator::PlanToJson(planned->request, planned->plan,
                                                                 planned->parts))
                             : Print(coordinator::PlanToText(planned->request, planned->plan)));
  if (!planned->plan.fits) {
    return WithExitCode(
        ResourceExhausted("{}: the model does not fit these workers", flags.topology), kBadData);
  }
  return absl::OkStatus();
}

}  // namespace

CommandBody DefinePlan(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  app.add_option("-f,--file", flags->topology, "Topology file")->required();
  app.add_option("--without", flags->without, "What if this worker were not there; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--context", flags->context, "What if a sequence had so many positions")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--sequences", flags->sequences, "What if so many were answered at once")
      ->check(CLI::Range(1, 65536));
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
