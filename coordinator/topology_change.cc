#include "coordinator/topology_change.h"

#include <algorithm>

namespace baton::coordinator {
namespace {

// A key and whether two values have the same under it.
template <typename T>
struct Key {
  std::string_view name;
  bool (*same)(const T&, const T&);
};

template <auto member, typename T>
bool Same(const T& a, const T& b) {
  return a.*member == b.*member;
}

constexpr Key<Topology> kFixed[] = {
    {"model", Same<&Topology::model>},
    {"context", Same<&Topology::context>},
    {"sequences", Same<&Topology::sequences>},
    {"listen.grpc", Same<&Topology::grpc_address>},
    {"listen.http", Same<&Topology::http_address>},
    {"wire", Same<&Topology::wire>},
    {"kv_type", Same<&Topology::kv_type>},
    {"tls", Same<&Topology::tls>},
    {"insecure", Same<&Topology::insecure>},
    {"api_keys", Same<&Topology::api_keys>},
    {"prefix_cache", Same<&Topology::prefix_cache>},
    {"speculation", Same<&Topology::speculation>},
    {"journal", Same<&Topology::journal>},
    {"limits", Same<&Topology::limits>},
};

// Of a worker that stays: how its process was started, or how it is reached.
constexpr Key<WorkerEntry> kFixedOfWorker[] = {
    {"address", Same<&WorkerEntry::address>}, {"memory", Same<&WorkerEntry::memory_bytes>},
    {"threads", Same<&WorkerEntry::threads>}, {"device", Same<&WorkerEntry::device>},
    {"models", Same<&WorkerEntry::models>},   {"launch", Same<&WorkerEntry::launch>},
    {"tls", Same<&WorkerEntry::tls>},         {"mlock", Same<&WorkerEntry::mlock>},
};

constexpr Key<WorkerEntry> kPlannedOfWorker[] = {
    {"name", Same<&WorkerEntry::name>},
    {"layers", Same<&WorkerEntry::layers>},
    {"layers", Same<&WorkerEntry::num_layers>},
    {"gpu_layers", Same<&WorkerEntry::gpu_layers>},
    {"weight", Same<&WorkerEntry::weight>},
    {"memory_gbps", Same<&WorkerEntry::memory_gbps>},
    {"compute_gflops", Same<&WorkerEntry::compute_gflops>},
};

constexpr Key<Topology> kPlanned[] = {
    {"order", Same<&Topology::any_order>},
    {"objective", Same<&Topology::objective>},
    {"links", Same<&Topology::links>},
};

template <typename T, size_t n>
std::string_view FirstOther(const Key<T> (&keys)[n], const T& a, const T& b) {
  for (const Key<T>& key : keys) {
    if (!key.same(a, b)) return key.name;
  }
  return "";
}

std::vector<const WorkerEntry*> AllWorkers(const Topology& topology) {
  std::vector<const WorkerEntry*> all;
  for (const auto* list : {&topology.workers, &topology.spares}) {
    for (const WorkerEntry& entry : *list) all.push_back(&entry);
  }
  return all;
}

const WorkerEntry* FindWorker(const Topology& topology, const std::string& name) {
  for (const WorkerEntry* entry : AllWorkers(topology)) {
    if (entry->name == name) return entry;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<TopologyChange> CompareTopologies(const Topology& now, const Topology& wanted) {
  if (const auto key = FirstOther(kFixed, now, wanted); !key.empty()) {
    return FailedPrecondition(
        "{}: {}: has changed, which needs a restart of the coordinator; nothing was changed",
        wanted.file, key);
  }
  TopologyChange change;
  for (const WorkerEntry* entry : AllWorkers(wanted)) {
    const WorkerEntry* before = FindWorker(now, entry->name);
    if (before == nullptr) {
      change.joined.push_back(entry->name);
    } else if (const auto key = FirstOther(kFixedOfWorker, *before, *entry); !key.empty()) {
      return FailedPrecondition(
          "{}:{}: {} of worker {}: has changed, which needs another process; nothing was changed. "
          "Give it another name, or restart the cluster",
          wanted.file, entry->line, key, entry->name);
    }
  }
  for (const WorkerEntry* entry : AllWorkers(now)) {
    if (FindWorker(wanted, entry->name) == nullptr) change.left.push_back(entry->name);
  }
  const bool same_workers = std::ranges::equal(
      now.workers, wanted.workers,
      [](const auto& a, const auto& b) { return FirstOther(kPlannedOfWorker, a, b).empty(); });
  change.replan = !same_workers || !FirstOther(kPlanned, now, wanted).empty();
  return change;
}

std::string Describe(const TopologyChange& change) {
  std::string text;
  const auto add = [&text](const std::vector<std::string>& names, std::string_view what) {
    if (names.empty()) return;
    if (!text.empty()) text += ", ";
    for (size_t i = 0; i < names.size(); ++i) text += (i > 0 ? " and " : "") + names[i];
    text += what;
  };
  add(change.joined, " joined");
  add(change.left, " left");
  if (text.empty()) text = change.replan ? "layers are divided anew" : "nothing new";
  return text;
}

}  // namespace baton::coordinator
