// baton serve: the coordinator as a process.
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <stop_token>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/ready_line.h"
#include "cli/topology_file.h"
#include "cli/topology_reload.h"
#include "coordinator/api_keys.h"
#include "coordinator/coordinator.h"
#include "coordinator/http_gateway.h"
#include "coordinator/inference_server.h"
#include "coordinator/metered_service.h"
#include "engine/base/steady_time.h"
#include "engine/base/time_slice.h"
#include "proto/address.h"
#include "proto/grpc_worker_client.h"
#include "proto/listen.h"

namespace baton::cli {
namespace {

struct ServeFlags {
  std::string topology;
  std::vector<std::string> addresses;
  std::string grpc;
  std::string http;
  bool supervised = false;
};

constexpr absl::Duration kStopPoll = absl::Milliseconds(100);
constexpr absl::Duration kTellLoading = absl::Seconds(2);
constexpr absl::Duration kGrace = absl::Seconds(2);  // for answers to end once the process should

std::string HowFar(const std::vector<coordinator::WorkerSnapshot>& workers) {
  std::string text;
  for (const coordinator::WorkerSnapshot& worker : workers) {
    if (worker.state != coordinator::WorkerState::kLoading) continue;
    text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", worker.name,
                        worker.load_progress * 100);
  }
  return text;
}

// Until all is loaded, or cannot be, or somebody stops us.
absl::Status WaitReady(coordinator::Coordinator& coordinator, std::stop_token stop) {
  absl::Time tell = SteadyNow() + kTellLoading;
  while (!stop.stop_requested()) {
    const absl::Status status = coordinator.WaitReady(SteadyNow() + kStopPoll);
    if (!absl::IsDeadlineExceeded(status)) return status;
    if (SteadyNow() < tell) continue;
    tell = SteadyNow() + kTellLoading;
    const std::string loading = HowFar(coordinator.service()->cluster().workers);
    if (!loading.empty()) spdlog::info("loading: {}", loading);
  }
  return absl::OkStatus();
}

ReadyLine AddressesOf(const coordinator::Topology& topology,
                      const coordinator::InferenceServer& server,
                      const coordinator::HttpGateway* gateway) {
  ReadyLine ready{.grpc = server.address(), .http = {}};
  if (gateway == nullptr) return ready;
  wire::Address http = wire::ParseAddress(topology.http_address).value_or(wire::Address());
  http.port = gateway->port();
  ready.http = http.ToString();
  return ready;
}

// The HTTP side, where the topology wants one.
absl::StatusOr<std::unique_ptr<coordinator::HttpGateway>> StartGateway(
    const coordinator::Topology& topology, coordinator::MeteredService* service,
    coordinator::ApiKeys* keys) {
  if (topology.http_address.empty()) return nullptr;
  ASSIGN_OR_RETURN(const wire::Address address, wire::ParseAddress(topology.http_address));
  RETURN_IF_ERROR(wire::CheckListenPolicy(address, wire::Security(), topology.insecure));
  coordinator::HttpGateway::Options options;
  options.host = address.host;
  options.port = address.port;
  options.max_body_bytes = topology.limits.body_bytes;
  options.max_connections = static_cast<size_t>(topology.limits.connections);
  if (keys != nullptr) {
    options.authorize = [keys](std::string_view authorization) {
      return keys->Check(authorization, {wire::Role::kGenerate, wire::Role::kAdmin});
    };
  }
  options.metrics_text = [service] { return service->MetricsText(); };
  return coordinator::HttpGateway::Start(options, service);
}

// Each client is an open file; what the system allows by itself may be less than it allows at most.
void AllowManyFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

absl::StatusOr<coordinator::Topology> ServedTopology(const ServeFlags& flags,
                                                     const std::vector<std::string>& addresses) {
  ASSIGN_OR_RETURN(coordinator::Topology topology,
                   ReadTopology(flags.topology, ModelUse::kWeights));
  // `baton up` knows more workers than a file that was edited since.
  RETURN_IF_ERROR(SetAddresses(addresses, topology, /*ignore_unknown=*/flags.supervised));
  if (!flags.grpc.empty()) topology.grpc_address = flags.grpc;
  if (!flags.http.empty()) topology.http_address = flags.http;
  return topology;
}

absl::Status Run(const ServeFlags& flags) {
  engine::AskForShortTimeSlices();
  AllowManyFiles();
  ASSIGN_OR_RETURN(const coordinator::Topology topology, ServedTopology(flags, flags.addresses));
  std::stop_source stop;
  TopologyReload reload(
      [&flags](const std::vector<std::string>& addresses) {
        return ServedTopology(flags, flags.supervised ? addresses : flags.addresses);
      },
      flags.supervised);
  InterruptWatch watch(HangupReloads() ? [&reload] { reload.Wish(); } : std::function<void()>());
  watch.OnSignal([&stop] { stop.request_stop(); });
  wire::GrpcWorkerConnector connector(SecurityOf(topology));
  auto created = coordinator::Coordinator::Create(topology, &connector, &reload);
  if (!created.ok()) return AsBadData(created.status());
  coordinator::Coordinator& coordinator = **created;
  const auto service = coordinator::MeteredService::Create(coordinator.service());
  std::unique_ptr<coordinator::ApiKeys> keys;
  if (!topology.api_keys.empty()) {
    ASSIGN_OR_RETURN(keys, coordinator::ApiKeys::Open(topology.api_keys));
  }
  ASSIGN_OR_RETURN(const auto server,
                   coordinator::InferenceServer::Start(topology, service.get(), keys.get()));
  ASSIGN_OR_RETURN(const auto gateway, StartGateway(topology, service.get(), keys.get()));
  coordinator.Start();
  RETURN_IF_ERROR(WaitReady(coordinator, stop.get_token()));
  if (!stop.stop_requested()) PrintReadyLine(AddressesOf(topology, *server, gateway.get()));
  reload.Start(service.get());

  WaitForStop(stop.get_token());
  if (gateway != nullptr) gateway->Stop(kGrace);
  coordinator.Shutdown();
  reload.Stop();
  return absl::OkStatus();
}

}  // namespace

CommandBody DefineServe(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  app.add_option("-f,--file", flags->topology, "Topology file")->required();
  app.add_option("--address", flags->addresses,
                 "NAME=HOST:PORT of a worker, instead of the file's; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--listen", flags->grpc, "HOST:PORT for gRPC, instead of the file's");
  app.add_option("--http", flags->http, "HOST:PORT for HTTP, instead of the file's");
  app.add_flag("--supervised", flags->supervised)->group("");  // by `baton up`: topology_reload.h
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
