// baton up: the workers that a topology file says how to launch, here or by ssh, and the
// coordinator, as children of this process.
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/detached.h"
#include "cli/exit_code.h"
#include "cli/ready_line.h"
#include "cli/ssh_command.h"
#include "cli/supervisor.h"
#include "cli/topology_file.h"
#include "proto/version.h"

namespace baton::cli {
namespace {

constexpr char kOurselves[] = "/proc/self/exe";
constexpr std::string_view kCoordinator = "coordinator";
constexpr absl::Duration kWorkerStart = absl::Seconds(30);

struct UpFlags {
  std::string file;
  bool copy = false;
  bool detach = false;
};

using coordinator::Topology;
using coordinator::WorkerEntry;

bool IsRemote(const WorkerEntry& entry) { return entry.launch.starts_with("ssh:"); }

std::vector<WorkerEntry> WorkersToStart(const Topology& topology) {
  std::vector<WorkerEntry> ours;
  for (const auto* workers : {&topology.workers, &topology.spares}) {
    for (const WorkerEntry& entry : *workers) {
      if (entry.launch != "none") ours.push_back(entry);
    }
  }
  return ours;
}

// Where a copy of this build lies on other hosts, below the home folder.
std::string CopiedProgram() { return fmt::format(".cache/baton/bin/baton-{}", wire::BuildId()); }

std::vector<std::string> WorkerCommand(const Topology& topology, const WorkerEntry& entry,
                                       const std::string& program,
                                       const std::optional<ReadyLine>& last) {
  std::vector<std::string> command = {program,    "worker",   "--name",
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
  if (!entry.tls.empty()) {
    add("--tls", entry.tls);
  } else if (topology.tls) {
    add("--ca", topology.tls->ca);
    add("--cert", topology.tls->cert);
    add("--key", topology.tls->key);
  } else if (topology.insecure) {
    command.push_back("--insecure");
  }
  return IsRemote(entry) ? SshCommand(entry.launch, command) : command;
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

absl::Status StartAll(const std::string& file, bool copy, const Topology& topology,
                      const std::vector<WorkerEntry>& local, Supervisor& supervisor) {
  for (const WorkerEntry& entry : local) {
    std::string program = kOurselves;
    if (IsRemote(entry)) {
      program = copy ? CopiedProgram() : SshProgram(entry.launch);
      spdlog::info("{}: starting on {}", entry.name, SshTarget(entry.launch));
      if (copy) RETURN_IF_ERROR(Prefixed(CopyOurselves(entry.launch, program), entry.name));
    }
    RETURN_IF_ERROR(supervisor.Start(
        {.name = entry.name, .command = [&topology, entry, program](const auto& last) {
           return WorkerCommand(topology, entry, program, last);
         }}));
  }
  RETURN_IF_ERROR(supervisor.WaitUntilReady(kWorkerStart));
  RETURN_IF_ERROR(
      supervisor.Start({.name = std::string(kCoordinator), .command = [&](const auto& last) {
                          return CoordinatorCommand(file, local, supervisor, last);
                        }}));
  return supervisor.WaitUntilReady(absl::InfiniteDuration());  // it has deadlines of its own
}

absl::Status Run(const UpFlags& flags) {
  ASSIGN_OR_RETURN(const Topology topology, ReadTopology(flags.file, ModelUse::kWeights));
  if (flags.detach) {
    std::vector<std::string> again = {"up", "-f", flags.file};
    if (flags.copy) again.push_back("--copy");
    return StartDetached(flags.file, again);
  }
  const std::vector<WorkerEntry> local = WorkersToStart(topology);
  Supervisor supervisor;
  absl::Status status = StartAll(flags.file, flags.copy, topology, local, supervisor);
  if (status.ok()) {
    PrintReadyLine(supervisor.ready(kCoordinator));
    status = supervisor.Run();
  }
  supervisor.Stop();
  return absl::IsCancelled(status) ? absl::OkStatus() : status;  // a signal is how it ends
}

}  // namespace

CommandBody DefineUp(CLI::App& app) {
  auto flags = std::make_shared<UpFlags>();
  app.footer(app.get_footer() +
             "\n\nStarts workers with `launch: local` as children, those with `launch: "
             "ssh://user@host`\nby the system's ssh, and leaves the others alone. What they say "
             "comes under their names.\nAll end with this process.");
  app.add_option("-f,--file", flags->file, "Topology file")->required();
  app.add_flag("--copy", flags->copy, "Copy this program to the hosts that ssh reaches");
  app.add_flag("-d,--detach", flags->detach,
               "Go on in the background once all is ready; see `baton logs` and `baton down`");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
