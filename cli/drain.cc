// baton drain: takes a worker out of a running cluster; its layers go elsewhere first.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/flag_values.h"
#include "cli/output.h"
#include "cli/remote_service.h"
#include "cli/server_flags.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

struct DrainFlags {
  ServerFlags server{.address = "127.0.0.1:7070", .tls = {}, .api_key_file = {}};
  std::string worker;
  std::string timeout = "5m";
  bool json = false;
};

absl::Status Run(const DrainFlags& flags) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, ParseDuration("--timeout", flags.timeout));
  ASSIGN_OR_RETURN(const auto service, RemoteService::Make(flags.server));
  RETURN_IF_ERROR(service->DrainWorker(flags.worker, SteadyNow() + timeout));
  if (flags.json) return PrintJson({{"worker", flags.worker}, {"drained", true}});
  return Print(fmt::format("{} is drained and may be stopped\n", flags.worker));
}

}  // namespace

CommandBody DefineDrain(CLI::App& app) {
  auto flags = std::make_shared<DrainFlags>();
  app.add_option("NAME", flags->worker, "The worker")->required();
  AddServerFlags(app, flags->server)->capture_default_str();
  app.add_option("--timeout", flags->timeout, "How long it may take")->capture_default_str();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
