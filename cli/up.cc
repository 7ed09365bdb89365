// baton up: the workers that a topology file says how to launch, and the coordinator, as children
// of this process.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/ready_line.h"
#include "cli/supervisor.h"
#include "cli/topology_file.h"

namespace baton::cli {
namespace {

constexpr char kOurselves[] = "/proc/self/exe";
constexpr std::string_view kCoordinator = "coordinator";
constexpr absl::Duration kWorkerStart = absl::Seconds(30);

using coordinator::Topology;
using coordinator::WorkerEntry;

absl::StatusOr<std::vector<WorkerEntry>> LocalWorkers(const Topology& topology) {
  std::vector<WorkerEntry> local;
  for (const auto* workers : {&topology.workers, &topology.spares}) {
    for (const WorkerEntry& entry : *workers) {
      if (entry.launch == "local") local.push_back(entry);
      if (entry.launch.starts_with("ssh:")) {
        return WithHint(Unimplemented("{}:{}: worker {}: launch: got {}, expected local or none",
                                      topology.file, entry.line, entry.name, entry.launch),
                        "start it there with `baton worker`, and say `launch: none`");
      }
    }
  }
  return local;
}

std::vector<std::string> WorkerCommand(const Topology& topology, const WorkerEntry& entry,
                                       const std::optional<ReadyLine>& last) {
  std::vector<std::string> command = {kOurselves, "worker",   "--name",
                                      entry.name, "--listen", last ? last->grpc : entry.address};
  const auto add = [&command](const char* flag, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  };
  const std::string model_dir = std::filesystem::path(topology.model).parent_path();
  add("--models", entry.models.empty() ? model_dir : entry.models);
  add("--device", entry.device);
  if (entry.threads > 0) add("--threads", std::to_string(entry.threads));
  if (entry.memory_bytes > 0) add("--memory", std::to_string(entry.memory_bytes));
  if (entry.mlock) command.push_back("--mlock");
  if (topology.insecure) command.push_back("--insecure");
  return command;
}

std::vector<std::string> CoordinatorCommand(const std::string& file,
                                            const std::vector<WorkerEntry>& local,
                                            const Supervisor& supervisor,
                                            const std::optional<ReadyLine>& last) {
  std::vector<std::string> command = {kOurselves, "serve", "-f", file};
  for (const WorkerEntry& entry : local) {
    command.insert(command.end(), {"--address", fmt::format("{}={}", entry.name,
                                                            supervisor.ready(entry.name).grpc)});
  }
  if (last) command.insert(command.end(), {"--listen", last->grpc});
  if (last && !last->http.empty()) command.insert(command.end(), {"--http", last->http});
  return command;
}

absl::Status StartAll(const std::string& file, const Topology& topology,
                      const std::vector<WorkerEntry>& local, Supervisor& supervisor) {
  for (const WorkerEntry& entry : local) {
    RETURN_IF_ERROR(
        supervisor.Start({.name = entry.name, .command = [&topology, entry](const auto& last) {
                            return WorkerCommand(topology, entry, last);
                          }}));
  }
  RETURN_IF_ERROR(supervisor.WaitUntilReady(kWorkerStart));
  RETURN_IF_ERROR(
      supervisor.Start({.name = std::string(kCoordinator), .command = [&](const auto& last) {
                          return CoordinatorCommand(file, local, supervisor, last);
                        }}));
  // The coordinator has its own deadlines; these are only so that nothing hangs.
  return supervisor.WaitUntilReady(topology.limits.start + topology.limits.load +
                                   absl::Seconds(10));
}

absl::Status Run(const std::string& file) {
  ASSIGN_OR_RETURN(const Topology topology, ReadTopology(file));
  ASSIGN_OR_RETURN(const std::vector<WorkerEntry> local, LocalWorkers(topology));
  Supervisor supervisor;
  absl::Status status = StartAll(file, topology, local, supervisor);
  if (status.ok()) {
    PrintReadyLine(supervisor.ready(kCoordinator));
    status = supervisor.Run();
  }
  supervisor.Stop();
  return absl::IsCancelled(status) ? absl::OkStatus() : status;  // a signal is how it ends
}

}  // namespace

CommandBody DefineUp(CLI::App& app) {
  auto file = std::make_shared<std::string>();
  app.add_option("-f,--file", *file, "Topology file")->required();
  return [file] { return Run(*file); };
}

}  // namespace baton::cli
