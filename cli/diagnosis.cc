#include "cli/diagnosis.h"

#include <absl/time/clock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "cli/exit_code.h"
#include "cli/ssh_command.h"
#include "cli/topology_file.h"
#include "coordinator/model_placer.h"
#include "coordinator/served_model.h"
#include "coordinator/worker_registry.h"
#include "engine/base/units.h"
#include "engine/gguf/gguf_file.h"
#include "proto/address.h"
#include "proto/certificates.h"
#include "proto/grpc_worker_client.h"
#include "proto/listen.h"
#include "proto/version.h"
#include "worker/host_info.h"

namespace baton::cli {
namespace {

using coordinator::Topology;
using coordinator::WorkerEntry;
using Level = Finding::Level;

constexpr absl::Duration kAskTimeout = absl::Seconds(3);
constexpr int kProbes = 5;
constexpr size_t kBigProbeBytes = 1'000'000;
constexpr absl::Duration kMaxClockSkew = absl::Seconds(5);
constexpr absl::Duration kRenewBefore = absl::Hours(14 * 24);
constexpr rlim_t kFilesOfAWorker = 1024;

// A worker of the file and what it said of itself.
struct Asked {
  const WorkerEntry* entry = nullptr;
  std::unique_ptr<wire::WorkerClient> client;
  absl::StatusOr<wire::WorkerInfo> info;
};

class Examination {
 public:
  explicit Examination(const Topology& topology) : topology_(topology) {}

  std::vector<Finding> Run() {
    CheckModel();
    CheckAddresses();
    CheckSecurity();
    CheckLimits();
    AskWorkers();
    for (Asked& asked : asked_) CheckWorker(asked);
    CheckSharedMemory();
    return std::move(findings_);
  }

 private:
  void Add(Level level, std::string where, std::string what, std::string todo = "") {
    findings_.push_back({level, std::move(where), std::move(what), std::move(todo)});
  }
  std::string PlaceOf(const WorkerEntry& entry) const {
    return fmt::format("{}:{}: worker {}", topology_.file, entry.line, entry.name);
  }
  std::vector<const WorkerEntry*> AllWorkers() const {
    std::vector<const WorkerEntry*> all;
    for (const auto* workers : {&topology_.workers, &topology_.spares}) {
      for (const WorkerEntry& entry : *workers) all.push_back(&entry);
    }
    return all;
  }

  void CheckModel();
  void CheckPlan(const coordinator::ServedModel& model);
  void CheckAddresses();
  void CheckPort(const std::string& where, const std::string& text);
  void CheckSecurity();
  void CheckCertificate(const std::string& where, const wire::Security& files);
  void CheckKeyFile(const std::string& file);
  void CheckLimits();
  void AskWorkers();
  void CheckWorker(Asked& asked);
  void CheckUnreachable(const Asked& asked);
  void CheckVersion(const Asked& asked);
  void CheckFiles(Asked& asked);
  void CheckLink(Asked& asked);
  void CheckSharedMemory();

  const Topology& topology_;
  std::unique_ptr<coordinator::ServedModel> model_;  // null: it cannot be read
  absl::StatusOr<coordinator::OfflinePlan> plan_ = absl::UnknownError("no model");
  std::vector<Asked> asked_;
  std::vector<Finding> findings_;
};

void Examination::CheckModel() {
  auto model = coordinator::ServedModel::Open(topology_);
  if (!model.ok()) {
    return Add(
        Level::kError, topology_.file, std::string(Message(model.status())),
        "give `model` a GGUF file that `baton info` calls supported, all its parts beside it");
  }
  model_ = *std::move(model);
  const coordinator::ModelSummary& summary = model_->summary();
  Add(Level::kGood, topology_.model,
      fmt::format("{}, {} layers, {}", summary.name, summary.num_layers,
                  engine::FormatBytes(summary.bytes)));
  for (const std::string& warning : summary.warnings) {
    Add(Level::kWarning, topology_.model, warning, "lower `context`, or know that answers suffer");
  }
  CheckPlan(*model_);
}

void Examination::CheckPlan(const coordinator::ServedModel&) {
  plan_ = coordinator::PlanOffline(topology_);
  if (!plan_.ok()) {
    return Add(Level::kError, topology_.file, std::string(Message(plan_.status())),
               "correct the `layers` of the workers: together they are the whole model, once");
  }
  if (!plan_->plan.fits) {
    return Add(Level::kError, topology_.file, "the model does not fit the workers' memory budgets",
               "see `baton plan`; raise `memory`, add a worker, or lower `context` or `sequences`");
  }
  Add(Level::kGood, topology_.file,
      fmt::format("the plan fits {} workers", plan_->plan.stages.size()));
}

// Free, or held by what may be this cluster, which CheckWorker will know.
void Examination::CheckPort(const std::string& where, const std::string& text) {
  const auto address = wire::ParseAddress(text);
  if (!address.ok()) {
    return Add(Level::kError, where, std::string(Message(address.status())), "write HOST:PORT");
  }
  const absl::Status free = wire::CheckPortFree(*address);
  if (absl::IsAlreadyExists(free)) {
    return Add(Level::kWarning, where, fmt::format("{} is in use", text),
               "fine if this cluster runs already; else stop that process or take another port");
  }
  if (!free.ok()) {
    Add(Level::kError, where, std::string(Message(free)), "take an address of this machine");
  }
}

void Examination::CheckAddresses() {
  CheckPort(topology_.file + ": listen.grpc", topology_.grpc_address);
  if (!topology_.http_address.empty()) {
    CheckPort(topology_.file + ": listen.http", topology_.http_address);
  }
  std::map<std::string, std::string> taken = {{topology_.grpc_address, "listen.grpc"}};
  if (!topology_.http_address.empty() && !topology_.http_address.ends_with(":0")) {
    const auto [other, free] = taken.emplace(topology_.http_address, "listen.http");
    if (!free) {
      Add(Level::kError, topology_.file + ": listen.http",
          fmt::format("{} is the address of {} too", topology_.http_address, other->second),
          "give each a port of its own");
    }
  }
  for (const WorkerEntry* entry : AllWorkers()) {
    if (entry->address.ends_with(":0")) continue;
    const auto [other, free] = taken.emplace(entry->address, entry->name);
    if (free) continue;
    Add(Level::kError, PlaceOf(*entry),
        fmt::format("{} is the address of {} too", entry->address, other->second),
        "give each a port of its own");
  }
}

void Examination::CheckKeyFile(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return;
  if ((info.st_mode & 077) == 0) return;
  Add(Level::kWarning, file, fmt::format("others may read it (mode {:o})", info.st_mode & 0777),
      "chmod 600 " + file);
}

void Examination::CheckCertificate(const std::string& where, const wire::Security& files) {
  if (const absl::Status valid = wire::CheckCertificate(files, absl::Now()); !valid.ok()) {
    return Add(Level::kError, where, std::string(Message(valid)),
               "`baton certs issue` with the cluster's authority makes files that belong together");
  }
  if (const absl::Status soon = wire::CheckCertificate(files, absl::Now() + kRenewBefore);
      !soon.ok()) {
    Add(Level::kWarning, where,
        fmt::format("in {} days: {}", kRenewBefore / absl::Hours(24), Message(soon)),
        "`baton certs issue` again; running processes take the new files by themselves");
  }
}

void Examination::CheckSecurity() {
  const wire::Security security = SecurityOf(topology_);
  for (const std::string* text : {&topology_.grpc_address, &topology_.http_address}) {
    const auto address = wire::ParseAddress(*text);
    if (!address.ok()) continue;
    const absl::Status allowed = wire::CheckListenPolicy(*address, security, topology_.insecure);
    if (allowed.ok()) continue;
    Add(Level::kError, topology_.file, std::string(Message(allowed)),
        "`baton certs` and the key `tls`, or `insecure: true` on a network that you trust");
  }
  for (const WorkerEntry* entry : AllWorkers()) {
    const auto address = wire::ParseAddress(entry->address);
    if (!address.ok() || address->IsLoopback() || security.tls() || topology_.insecure) continue;
    Add(Level::kError, PlaceOf(*entry),
        fmt::format("{} is beyond loopback, and there is neither TLS nor `insecure`",
                    entry->address),
        "`baton certs` and the key `tls`, or `insecure: true` on a network that you trust");
  }
  if (topology_.tls) {
    bool readable = true;
    for (const std::string* file :
         {&topology_.tls->ca, &topology_.tls->cert, &topology_.tls->key}) {
      if (access(file->c_str(), R_OK) == 0) continue;
      readable = false;
      Add(Level::kError, topology_.file, fmt::format("{}: {}", *file, std::strerror(errno)),
          "`baton certs issue` writes the files that `tls` names");
    }
    if (readable) CheckCertificate(topology_.file, security);
    CheckKeyFile(topology_.tls->key);
  }
  if (topology_.api_keys.empty()) return;
  if (access(topology_.api_keys.c_str(), R_OK) != 0) {
    Add(Level::kError, topology_.file,
        fmt::format("{}: {}", topology_.api_keys, std::strerror(errno)),
        "write the file that `api_keys` names, one key a line");
  }
  CheckKeyFile(topology_.api_keys);
}

void Examination::CheckLimits() {
  struct rlimit files {};
  getrlimit(RLIMIT_NOFILE, &files);
  const int ports = topology_.http_address.empty() ? 1 : 2;
  const rlim_t wanted =
      static_cast<rlim_t>(ports) * static_cast<rlim_t>(topology_.limits.connections) +
      kFilesOfAWorker;
  if (files.rlim_max != RLIM_INFINITY && files.rlim_max < wanted) {
    Add(Level::kWarning, "this machine",
        fmt::format("a process may open {} files, expected {}", files.rlim_max, wanted),
        fmt::format("ulimit -n {}, or LimitNOFILE= of the unit, or lower limits.connections",
                    wanted));
  }
  const bool locks = std::ranges::any_of(
      topology_.workers, [](const WorkerEntry& e) { return e.mlock && e.launch == "local"; });
  struct rlimit locked {};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  if (locks && locked.rlim_max != RLIM_INFINITY && geteuid() != 0) {
    Add(Level::kWarning, "this machine",
        fmt::format("`mlock` is asked for, but a process may lock {} only",
                    engine::FormatBytes(locked.rlim_max)),
        "ulimit -l unlimited, or LimitMEMLOCK=infinity of the unit");
  }
}

void Examination::AskWorkers() {
  wire::GrpcWorkerConnector connector(SecurityOf(topology_));
  for (const WorkerEntry* entry : AllWorkers()) {
    Asked& asked = asked_.emplace_back();
    asked.entry = entry;
    asked.client = connector.Connect(entry->address);
  }
  coordinator::InParallel(asked_.size(), [this](size_t i) {
    if (asked_[i].entry->address.ends_with(":0")) {
      asked_[i].info = Unavailable("its port is not known before it runs");
    } else {
      asked_[i].info = asked_[i].client->GetInfo(kAskTimeout);
    }
  });
}

void Examination::CheckWorker(Asked& asked) {
  if (!asked.info.ok()) return CheckUnreachable(asked);
  CheckVersion(asked);
  CheckFiles(asked);
  CheckLink(asked);
}

void Examination::CheckUnreachable(const Asked& asked) {
  const WorkerEntry& entry = *asked.entry;
  if (entry.launch == "local") {
    std::error_code ignored;
    if (!entry.models.empty() && topology_.hub.empty() &&
        !std::filesystem::is_directory(entry.models, ignored)) {
      Add(Level::kError, PlaceOf(entry), fmt::format("{}: no such folder", entry.models),
          "make it, or correct `models`");
    }
    if (!entry.address.ends_with(":0")) CheckPort(PlaceOf(entry), entry.address);
    return Add(Level::kGood, PlaceOf(entry), "is not running; `baton up` will start it");
  }
  if (entry.launch.starts_with("ssh:")) {
    const absl::Status reached = TrySsh(entry.launch, kAskTimeout);
    if (reached.ok()) {
      return Add(Level::kGood, PlaceOf(entry), "is not running; `baton up` will start it by ssh");
    }
    return Add(Level::kError, PlaceOf(entry), std::string(Message(reached)),
               fmt::format("make `ssh {}` work without questions: keys, known hosts",
                           SshTarget(entry.launch)));
  }
  Add(Level::kError, PlaceOf(entry),
      fmt::format("{} does not answer: {}", entry.address, Message(asked.info.status())),
      "start `baton worker --listen` there, open the port, and use the same TLS authority");
}

void Examination::CheckVersion(const Asked& asked) {
  const WorkerEntry& entry = *asked.entry;
  const wire::WorkerInfo& info = *asked.info;
  const absl::Status same = wire::CheckSameVersion(entry.name, info.protocol_version, info.build);
  if (!same.ok()) {
    Add(Level::kError, PlaceOf(entry), std::string(Message(same)),
        "install the same build of baton on all hosts");
  }
  if (info.name != entry.name) {
    Add(Level::kWarning, PlaceOf(entry),
        fmt::format("{} calls itself {}", entry.address, info.name),
        "correct the address, or start it with --name " + entry.name);
  }
  const int64_t clock_ms = info.clock_unix_ms;
  const absl::Duration skew = absl::FromUnixMillis(clock_ms) - absl::Now();
  if (clock_ms != 0 && absl::AbsDuration(skew) > kMaxClockSkew) {
    Add(Level::kWarning, PlaceOf(entry),
        fmt::format("its clock is {} {}", absl::FormatDuration(absl::AbsDuration(skew)),
                    skew > absl::ZeroDuration() ? "ahead" : "behind"),
        "run a time service there: certificates and logs depend on it");
  }
  Add(Level::kGood, PlaceOf(entry),
      fmt::format("{}, {} of memory free", info.backend,
                  engine::FormatBytes(info.memory_available_bytes)));
}

// The parts that it would map are there, and are those of this model.
void Examination::CheckFiles(Asked& asked) {
  const bool fetched = topology_.fetch_parts || !topology_.hub.empty();
  if (!plan_.ok() || model_ == nullptr || fetched) return;
  for (size_t stage = 0; stage < plan_->plan.stages.size(); ++stage) {
    const WorkerEntry& planned = topology_.workers[plan_->plan.stages[stage].worker];
    if (&planned != asked.entry) continue;
    for (const std::string& part : plan_->parts[stage]) {
      const std::string name = std::filesystem::path(part).filename();
      const auto header = asked.client->ReadHeader(name, kAskTimeout);
      if (!header.ok()) {
        Add(Level::kError, PlaceOf(planned), std::string(Message(header.status())),
            fmt::format("copy {} into its models folder, or set `fetch_parts: true`", name));
        continue;
      }
      const std::string folder = std::filesystem::path(topology_.model).parent_path();
      std::ifstream ours(folder + "/" + name, std::ios::binary);
      std::string expected(header->size(), '\0');
      ours.read(expected.data(), static_cast<std::streamsize>(expected.size()));
      if (!ours || expected == *header) continue;
      Add(Level::kError, PlaceOf(planned), fmt::format("its {} is another file than ours", name),
          "copy the same file to all hosts");
    }
  }
}

// Latency and bandwidth from here, against what `links` says.
void Examination::CheckLink(Asked& asked) {
  const WorkerEntry& entry = *asked.entry;
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < kProbes; ++i) {
    const auto took = asked.client->Probe(64, kAskTimeout);
    if (took.ok()) best = std::min(best, *took);
  }
  if (best == absl::InfiniteDuration()) return;
  absl::Duration big = absl::InfiniteDuration();
  for (int i = 0; i < 2; ++i) {
    const auto took = asked.client->Probe(kBigProbeBytes, kAskTimeout);
    if (took.ok()) big = std::min(big, *took);
  }
  // There and back.
  const double seconds = std::max(absl::ToDoubleSeconds(big - best), 1e-6);
  const double bytes_per_s = 2.0 * kBigProbeBytes / seconds;
  const std::string measured = fmt::format("link from here: {:.2f} ms round trip, {:.0f} MB/s",
                                           absl::ToDoubleMilliseconds(best), bytes_per_s / 1e6);
  for (const coordinator::LinkEntry& link : topology_.links) {
    const bool ours = (link.from == "coordinator" && link.to == entry.name) ||
                      (link.to == "coordinator" && link.from == entry.name);
    if (!ours) continue;
    const bool slow = best > 4 * link.latency + absl::Milliseconds(1);
    const bool narrow = link.bytes_per_s > 0 && bytes_per_s < link.bytes_per_s / 2;
    if (!slow && !narrow) continue;
    return Add(Level::kWarning, PlaceOf(entry),
               fmt::format("{}; the plan assumes {:.2f} ms and {:.0f} MB/s", measured,
                           2 * absl::ToDoubleMilliseconds(link.latency), link.bytes_per_s / 1e6),
               "correct `links`, or look what slows the network down");
  }
  Add(Level::kGood, PlaceOf(entry), measured);
}

// Workers of one host share its memory, but each says what the host has free.
void Examination::CheckSharedMemory() {
  if (!plan_.ok()) return;
  std::map<std::string, std::pair<uint64_t, uint64_t>> hosts;  // needed, free
  for (const coordinator::PlanStage& stage : plan_->plan.stages) {
    const WorkerEntry& entry = topology_.workers[stage.worker];
    uint64_t free = 0;
    std::string host;
    for (const Asked& asked : asked_) {
      if (asked.entry != &entry || !asked.info.ok() || asked.info->loaded) continue;
      host = asked.info->host_id;
      free = asked.info->memory_available_bytes;
    }
    if (host.empty() && entry.launch == "local") {
      host = worker::HostId();
      free = worker::HostMemory().available_bytes;
    }
    if (host.empty()) continue;
    hosts[host].first += stage.memory_bytes();
    hosts[host].second = free;
  }
  for (const auto& [host, memory] : hosts) {
    if (memory.first <= memory.second) continue;
    Add(Level::kError, "memory",
        fmt::format("the workers of one host need {} together, but {} are free there",
                    engine::FormatBytes(memory.first), engine::FormatBytes(memory.second)),
        "free memory, lower `context` or `sequences`, or move a worker");
  }
}

}  // namespace

std::string_view LevelName(Level level) {
  constexpr std::string_view kNames[] = {"good", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

std::vector<Finding> Diagnose(const Topology& topology) { return Examination(topology).Run(); }

}  // namespace baton::cli
