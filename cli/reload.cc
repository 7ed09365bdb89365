// baton reload: a running cluster takes over what its topology file says now.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/flag_values.h"
#include "cli/output.h"
#include "cli/remote_service.h"
#include "cli/server_flags.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kAskState = absl::Seconds(10);

struct ReloadFlags {
  ServerFlags server{.address = "127.0.0.1:7070", .tls = {}, .api_key_file = {}};
  std::string timeout = "5m";
  bool json = false;
};

// How far a worker that joined is, for people.
std::string StateOf(const coordinator::ClusterStatus& cluster, const std::string& name) {
  const auto worker = std::ranges::find(cluster.workers, name, &coordinator::WorkerSnapshot::name);
  if (worker == cluster.workers.end()) return "";
  std::string state(coordinator::WorkerStateName(worker->state));
  if (worker->layers.size() > 0)
    state += fmt::format(", layers {}-{}", worker->layers.begin, worker->layers.end - 1);
  if (!worker->reason.empty()) state += ": " + worker->reason;
  return state;
}

absl::Status Run(const ReloadFlags& flags) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, ParseDuration("--timeout", flags.timeout));
  ASSIGN_OR_RETURN(const auto service, RemoteService::Make(flags.server));
  ASSIGN_OR_RETURN(const coordinator::TopologyChange change,
                   service->ReloadTopology(SteadyNow() + timeout));
  if (flags.json) return PrintJson({{"joined", change.joined}, {"left", change.left}});
  const auto cluster = service->FetchCluster(kAskState);
  std::string text;
  for (const std::string& name : change.joined)
    text += fmt::format("{} joined ({})\n", name, cluster.ok() ? StateOf(*cluster, name) : "");
  for (const std::string& name : change.left) text += fmt::format("{} left\n", name);
  return Print(text.empty() ? "no worker joined or left\n" : text);
}

}  // namespace

CommandBody DefineReload(CLI::App& app) {
  auto flags = std::make_shared<ReloadFlags>();
  app.footer(
      app.get_footer() +
      "\n\nThe coordinator reads its topology file again, on its own host. Workers and spares "
      "that\nare new join; those that are gone give up their layers first. `layers`, "
      "`weight`, `links`,\n`order`, `objective` and measured speeds take effect, too, and "
      "layers move where the plan\nis another. Requests go on after a pause. Anything else "
      "needs a restart: the error says\nwhich key, and nothing is changed. `baton up` starts "
      "and stops the workers that it\nlaunches. SIGHUP does the same to a `baton serve` or "
      "`up` without a terminal.");
  AddServerFlags(app, flags->server)->capture_default_str();
  app.add_option("--timeout", flags->timeout, "How long it may take")->capture_default_str();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
