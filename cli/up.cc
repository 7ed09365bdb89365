// baton up: the workers that a topology file says how to launch, here or by ssh, and the
// coordinator, as children of this process.
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/detached.h"
#include "cli/exit_code.h"
#include "cli/ready_line.h"
#include "cli/ssh_command.h"
#include "cli/supervisor.h"
#include "cli/topology_file.h"
#include "cli/topology_reload.h"
#include "coordinator/topology_change.h"
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

bool IsLaunched(const Topology& topology, const std::string& name) {
  return std::ranges::any_of(WorkersToStart(topology),
                             [&](const WorkerEntry& entry) { return entry.name == name; });
}

// The programs of a topology file, and what becomes of them when it is read again
// (cli/topology_reload.h).
class Programs {
 public:
  Programs(const UpFlags& flags, Topology topology)
      : flags_(flags), topology_(std::move(topology)) {}

  absl::Status Run() {
    absl::Status status = Start();
    if (status.ok()) {
      PrintReadyLine(supervisor_.ready(kCoordinator));
      if (HangupReloads()) supervisor_.OnHangup([this] { Reload(); });
      status = supervisor_.Run();
    }
    supervisor_.Stop();
    return status;
  }

 private:
  absl::Status Start() {
    for (const WorkerEntry& entry : WorkersToStart(topology_))
      RETURN_IF_ERROR(StartWorker(entry, nullptr));
    RETURN_IF_ERROR(supervisor_.WaitUntilReady(kWorkerStart));
    RETURN_IF_ERROR(supervisor_.Start(
        {.name = std::string(kCoordinator),
         .command = [this](const auto& last) { return CoordinatorCommand(last); },
         .on_line = [this](const std::string& line) { return OnCoordinatorLine(line); }}));
    return supervisor_.WaitUntilReady(absl::InfiniteDuration());  // it has deadlines of its own
  }

  absl::Status StartWorker(const WorkerEntry& entry,
                           std::function<void(const absl::Status&)> on_failure) {
    std::string program = kOurselves;
    if (IsRemote(entry)) {
      program = flags_.copy ? CopiedProgram() : SshProgram(entry.launch);
      spdlog::info("{}: starting on {}", entry.name, SshTarget(entry.launch));
      if (flags_.copy) RETURN_IF_ERROR(Prefixed(CopyOurselves(entry.launch, program), entry.name));
    }
    return supervisor_.Start({.name = entry.name,
                              .command =
                                  [this, entry, program](const auto& last) {
                                    return WorkerCommand(topology_, entry, program, last);
                                  },
                              .on_ready = [this] { GoOnWhereReady(); },
                              .on_failure = std::move(on_failure)});
  }

  std::vector<std::string> CoordinatorCommand(const std::optional<ReadyLine>& last) const {
    std::vector<std::string> command = {kOurselves, "serve", "-f", flags_.file, "--supervised"};
    for (const std::string& address : Addresses())
      command.insert(command.end(), {"--address", address});
    if (last) command.insert(command.end(), {"--listen", last->grpc});
    if (last && !last->http.empty()) command.insert(command.end(), {"--http", last->http});
    return command;
  }

  // Of all that run, NAME=HOST:PORT.
  std::vector<std::string> Addresses() const {
    std::vector<std::string> addresses;
    for (const WorkerEntry& entry : WorkersToStart(wanted_ ? *wanted_ : topology_)) {
      if (supervisor_.is_ready(entry.name))
        addresses.push_back(fmt::format("{}={}", entry.name, supervisor_.ready(entry.name).grpc));
    }
    return addresses;
  }

  bool OnCoordinatorLine(const std::string& line) {
    if (line == kReloadWanted) {
      Reload();
    } else if (line == kReloaded) {
      if (wanted_) Keep(*std::exchange(wanted_, std::nullopt));
    } else if (line.starts_with(kNotReloaded)) {
      wanted_.reset();
      Keep(topology_);
    } else {
      return false;
    }
    return true;
  }

  // Starts what is new in the file; the coordinator hears of it when that is ready.
  void Reload() {
    absl::StatusOr<Topology> wanted = ReadTopology(flags_.file, ModelUse::kWeights);
    if (!wanted.ok()) return Refuse(wanted.status());
    const auto change = coordinator::CompareTopologies(topology_, *wanted);
    if (!change.ok()) return Refuse(change.status());
    wanted_ = *std::move(wanted);
    told_ = false;
    for (const WorkerEntry& entry : WorkersToStart(*wanted_)) {
      if (supervisor_.has(entry.name)) continue;
      const absl::Status status =
          StartWorker(entry, [this](const absl::Status& why) { Refuse(why); });
      if (!status.ok()) return Refuse(status);
    }
    GoOnWhereReady();
  }

  void GoOnWhereReady() {
    if (!wanted_ || told_) return;
    for (const WorkerEntry& entry : WorkersToStart(*wanted_)) {
      if (!supervisor_.is_ready(entry.name)) return;
    }
    told_ = true;
    supervisor_.Tell(kCoordinator, fmt::format("{} {}", kWorkersAt, fmt::join(Addresses(), " ")));
  }

  void Refuse(const absl::Status& why) {
    spdlog::error("{}", Message(why));
    supervisor_.Tell(kCoordinator, fmt::format("{}{}", kCannotReload, Message(why)));
    wanted_.reset();
    Keep(topology_);
  }

  // What this topology does not want ends.
  void Keep(const Topology& topology) {
    for (const std::string& name : supervisor_.names()) {
      if (name != kCoordinator && !IsLaunched(topology, name)) supervisor_.Remove(name);
    }
    topology_ = topology;
  }

  const UpFlags flags_;
  Topology topology_;
  std::optional<Topology> wanted_;  // on its way
  bool told_ = false;               // the coordinator, of wanted_
  Supervisor supervisor_;
};

absl::Status Run(const UpFlags& flags) {
  ASSIGN_OR_RETURN(const Topology topology, ReadTopology(flags.file, ModelUse::kWeights));
  if (flags.detach) {
    std::vector<std::string> again = {"up", "-f", flags.file};
    if (flags.copy) again.push_back("--copy");
    return StartDetached(flags.file, again);
  }
  const absl::Status status = Programs(flags, topology).Run();
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
