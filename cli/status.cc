// baton status: what a running cluster is doing.
#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/output.h"
#include "cli/remote_service.h"
#include "cli/status_report.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Milliseconds(200);  // between tries

struct StatusFlags {
  ServerFlags server{.address = "127.0.0.1:7070", .tls = {}, .api_key_file = {}};
  std::string wait;
  bool watch = false;
  bool json = false;
};

using coordinator::ClusterState;
using coordinator::ClusterStatus;

// Keeps trying, also while nobody listens yet.
absl::StatusOr<ClusterStatus> WaitUntilReady(RemoteService& service, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - SteadyNow();
    auto cluster = service.FetchCluster(std::clamp(left, kPause, kTimeout));
    if (cluster.ok() && cluster->state.state == ClusterState::kReady) return cluster;
    const bool for_good = cluster.ok() ? cluster->state.state == ClusterState::kFailed
                                       : !absl::IsUnavailable(cluster.status()) &&
                                             !absl::IsDeadlineExceeded(cluster.status());
    if (for_good || left <= kPause) {
      if (!cluster.ok()) return WithExitCode(cluster.status(), kUnreachable);
      return Unavailable("cluster: {}{}", coordinator::ClusterStateName(cluster->state.state),
                         cluster->state.reason.empty() ? "" : ": " + cluster->state.reason);
    }
    absl::SleepFor(kPause);
  }
}

absl::Status Show(const ClusterStatus& cluster, bool json) {
  return json ? PrintJson(StatusJson(cluster)) : Print(StatusText(cluster));
}

// A new picture each second, until the cluster or the reader is gone.
absl::Status Watch(RemoteService& service, bool json) {
  while (true) {
    ASSIGN_OR_RETURN(const ClusterStatus cluster, service.FetchCluster(kTimeout));
    if (!json && StdoutIsTerminal()) RETURN_IF_ERROR(Print("\x1b[H\x1b[2J"));
    RETURN_IF_ERROR(Show(cluster, json));
    absl::SleepFor(absl::Seconds(1));
  }
}

absl::Status Run(const StatusFlags& flags) {
  ASSIGN_OR_RETURN(const auto service, RemoteService::Make(flags.server));
  absl::StatusOr<ClusterStatus> cluster;
  if (flags.wait.empty()) {
    cluster = service->FetchCluster(kTimeout);
  } else {
    ASSIGN_OR_RETURN(const absl::Duration wait, ParseDuration("--wait", flags.wait));
    cluster = WaitUntilReady(*service, SteadyNow() + wait);
  }
  if (!cluster.ok()) return cluster.status();
  return flags.watch ? Watch(*service, flags.json) : Show(*cluster, flags.json);
}

}  // namespace

CommandBody DefineStatus(CLI::App& app) {
  auto flags = std::make_shared<StatusFlags>();
  AddServerFlags(app, flags->server)->capture_default_str();
  app.add_option("--wait", flags->wait, "Keep trying for so long, as 30s, until it is ready");
  app.add_flag("--watch", flags->watch, "Show it again each second");
  app.add_flag("--json", flags->json, "One JSON document; with --watch one a line");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
