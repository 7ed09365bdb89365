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

struct Flags {
  std::string topology;
  bool json = false;
};

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const coordinator::Topology topology, ReadTopology(flags.topology));
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
  auto flags = std::make_shared<Flags>();
  app.add_option("-f,--file", flags->topology, "Topology file")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
