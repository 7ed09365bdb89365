#include "coordinator/worker_registry.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/base/steady_time.h"
#include "proto/link_speed.h"
#include "proto/version.h"

namespace baton::coordinator {
namespace {

constexpr absl::Duration kInfoTimeout = absl::Seconds(5);

}  // namespace

std::string_view WorkerStateName(WorkerState state) {
  static constexpr std::string_view kNames[] = {"joining", "loading", "ready",
                                                "suspect", "lost",    "draining"};
  return kNames[static_cast<size_t>(state)];
}

void InParallel(size_t count, const std::function<void(size_t)>& function) {
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back([&function, i] { function(i); });
  if (count > 0) function(0);
}

WorkerRegistry::WorkerRegistry(const std::vector<WorkerEntry>& workers,
                               const std::vector<WorkerEntry>& spares,
                               wire::WorkerConnector* connector)
    : connector_(connector) {
  SetWorkers(workers, spares);
}

WorkerRegistry::~WorkerRegistry() { DetachAll(); }

void WorkerRegistry::SetWorkers(const std::vector<WorkerEntry>& workers,
                                const std::vector<WorkerEntry>& spares) {
  const std::lock_guard lock(mutex_);
  for (const size_t worker : current_) workers_[worker]->listed = false;
  const std::vector<size_t> before = std::exchange(current_, {});
  const auto list = [&](const WorkerEntry& entry, bool spare) {
    const auto known = std::ranges::find_if(workers_, [&](const auto& worker) {
      return worker->entry.name == entry.name && worker->entry.address == entry.address;
    });
    const size_t index = known - workers_.begin();
    if (known == workers_.end()) workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_[index];
    if (std::ranges::find(before, index) == before.end()) worker.alive = worker.draining = false;
    worker.entry = entry;
    worker.spare = worker.seen.spare = spare;
    worker.listed = true;
    worker.seen.worker = index;
    worker.seen.name = entry.name;
    worker.seen.address = entry.address;
    current_.push_back(index);
  };
  for (const WorkerEntry& entry : workers) list(entry, false);
  for (const WorkerEntry& entry : spares) list(entry, true);
  for (const size_t worker : before) {
    if (!workers_[worker]->listed) current_.push_back(worker);
  }
}

void WorkerRegistry::NotePlaced(std::span<const size_t> placed) {
  const std::lock_guard lock(mutex_);
  std::erase_if(current_, [&](size_t index) {
    if (std::ranges::find(placed, index) != placed.end()) return false;
    Worker& worker = *workers_[index];
    worker.seen.layers = {};
    return !worker.listed;
  });
}

std::vector<size_t> WorkerRegistry::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

bool WorkerRegistry::listed(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->listed;
}

WorkerEntry WorkerRegistry::entry(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->entry;
}

bool WorkerRegistry::is_spare(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->spare;
}

std::vector<WorkerSnapshot> WorkerRegistry::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerSnapshot> snapshot;
  for (const size_t index : current_) {
    const Worker& worker = *workers_[index];
    snapshot.push_back(worker.seen);
    if (worker.draining || !worker.listed) snapshot.back().state = WorkerState::kDraining;
  }
  return snapshot;
}

std::optional<size_t> WorkerRegistry::Find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const size_t index : current_) {
    if (workers_[index]->listed && workers_[index]->entry.name == name) return index;
  }
  return std::nullopt;
}

std::shared_ptr<wire::WorkerClient> WorkerRegistry::ClientOf(size_t worker) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<wire::WorkerClient>& client = workers_[worker]->client;
  if (client == nullptr) client = connector_->Connect(workers_[worker]->entry.address);
  return client;
}

void WorkerRegistry::Refresh(absl::Duration timeout) {
  const std::vector<size_t> asked = current();
  InParallel(asked.size(), [&](size_t i) { Query(asked[i], timeout, absl::ZeroDuration()); });
}

std::vector<size_t> WorkerRegistry::RefreshIdle(absl::Duration timeout, absl::Duration patience) {
  std::vector<size_t> asked = current();
  std::erase_if(asked, [this](size_t worker) { return link(worker) != nullptr; });
  std::vector<size_t> gone = asked;
  std::erase_if(gone, [this](size_t worker) { return !alive(worker); });
  InParallel(asked.size(), [&](size_t i) { Query(asked[i], timeout, patience); });
  std::erase_if(gone, [this](size_t worker) { return alive(worker); });
  return gone;
}

void WorkerRegistry::Query(size_t index, absl::Duration timeout, absl::Duration patience) {
  const absl::StatusOr<wire::WorkerInfo> info = ClientOf(index)->GetInfo(timeout);
  if (!info.ok()) {
    if (absl::IsDeadlineExceeded(info.status())) {
      const std::lock_guard lock(mutex_);
      const Worker& worker = *workers_[index];
      if (worker.alive && SteadyNow() - worker.last_seen < patience) return;
    }
    return MarkLost(index, Message(info.status()));
  }
  // Whoever gets a stage is asked when it loads; a spare would be found out too late.
  if (is_spare(index)) {
    const absl::Status same =
        wire::CheckSameVersion("the worker", info->protocol_version, info->build);
    if (!same.ok()) return MarkLost(index, Message(same));
  }
  const std::lock_guard lock(mutex_);
  Worker& worker = *workers_[index];
  if (worker.seen.info.instance_id != info->instance_id)
    worker.draining = false;  // it is another process
  worker.alive = true;
  worker.last_seen = SteadyNow();
  worker.seen.info = *info;
  worker.seen.reason.clear();
  if (worker.seen.state == WorkerState::kLost) worker.seen.state = WorkerState::kJoining;
  if (worker.spare && worker.seen.state == WorkerState::kJoining)
    worker.seen.state = WorkerState::kReady;  // to take over
}

bool WorkerRegistry::alive(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->alive;
}

wire::WorkerInfo WorkerRegistry::info(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->seen.info;
}

std::string WorkerRegistry::reason(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->seen.reason;
}

wire::LoadedStage WorkerRegistry::loaded(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->loaded;
}

absl::StatusOr<uint64_t> WorkerRegistry::KvFile(size_t worker, const wire::KvFileRequest& request,
                                                absl::Duration timeout) {
  return ClientOf(worker)->KvFile(request, timeout);
}

absl::StatusOr<wire::LinkSpeed> WorkerRegistry::MeasureLink(size_t worker) {
  const std::shared_ptr<wire::WorkerClient> client = ClientOf(worker);
  return wire::MeasureLink(
      [&](size_t bytes, absl::Duration timeout) { return client->Probe(bytes, timeout); });
}

absl::Status WorkerRegistry::Load(size_t index, const wire::LoadRequest& request,
                                  absl::Duration patience, const std::atomic<bool>& stopping) {
  {
    const std::lock_guard lock(mutex_);
    WorkerSnapshot& seen = workers_[index]->seen;
    seen.state = WorkerState::kLoading;
    seen.layers = request.spec.layers;
    seen.load_progress = 0;
  }
  const auto progress = [&](uint64_t done, uint64_t total) {
    const std::lock_guard lock(mutex_);
    workers_[index]->seen.load_progress = total > 0 ? static_cast<double>(done) / total : 1;
    return !stopping;
  };
  const absl::StatusOr<wire::LoadedStage> stage =
      ClientOf(index)->LoadStage(request, progress, patience);
  if (!stage.ok()) {
    const absl::Status status = Prefixed(
        stage.status(), fmt::format("worker {} at {}", entry(index).name, entry(index).address));
    MarkLost(index, Message(stage.status()));
    return status;
  }
  // What it says of itself has changed: parts that it fetched, bytes that it received.
  const absl::StatusOr<wire::WorkerInfo> info = ClientOf(index)->GetInfo(kInfoTimeout);
  const std::lock_guard lock(mutex_);
  if (info.ok()) workers_[index]->seen.info = *info;
  workers_[index]->loaded = *stage;
  WorkerSnapshot& seen = workers_[index]->seen;
  seen.weights_bytes = stage->weights_bytes;
  seen.kv_bytes = stage->kv_bytes;
  seen.warnings = stage->warnings;
  seen.load_progress = 1;
  return absl::OkStatus();
}

absl::Status WorkerRegistry::Attach(size_t index, const wire::WorkerClient::AttachOptions& options,
                                    std::function<void(wire::WorkerEvent)> on_event,
                                    absl::Duration timeout) {
  absl::StatusOr<std::unique_ptr<wire::WorkerLink>> link =
      ClientOf(index)->Attach(options, std::move(on_event), timeout);
  if (!link.ok()) {
    MarkLost(index, Message(link.status()));
    return Prefixed(link.status(),
                    fmt::format("worker {} at {}", entry(index).name, entry(index).address));
  }
  const std::lock_guard lock(mutex_);
  Worker& worker = *workers_[index];
  worker.link = *std::move(link);
  worker.last_seen = SteadyNow();
  worker.beat_sent = absl::InfinitePast();
  worker.seen.state = WorkerState::kReady;
  return absl::OkStatus();
}

std::shared_ptr<wire::WorkerLink> WorkerRegistry::link(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->link;
}

void WorkerRegistry::DetachAll() {
  std::vector<std::shared_ptr<wire::WorkerLink>>
      links;  // ended without the lock: events may want it
  {
    const std::lock_guard lock(mutex_);
    for (const auto& worker : workers_) {
      if (worker->link != nullptr) links.push_back(std::move(worker->link));
      worker->link = nullptr;
    }
  }
}

std::vector<size_t> WorkerRegistry::Beat(absl::Time now, absl::Duration lease) {
  std::vector<size_t> silent;
  std::vector<std::pair<std::shared_ptr<wire::WorkerLink>, uint64_t>> beats;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = *workers_[i];
      if (worker.link == nullptr) continue;
      const absl::Duration quiet = now - worker.last_seen;
      if (quiet >= lease) {
        silent.push_back(i);
      } else if (worker.alive) {
        worker.seen.state = quiet >= lease / 4 ? WorkerState::kSuspect : WorkerState::kReady;
      }
      if (worker.beat_sent <= worker.last_seen) {  // answered, so that none pile up
        worker.beat_sent = now;
        beats.emplace_back(worker.link, ++worker.beat);
      }
    }
  }
  for (const auto& [link, sequence] : beats) link->Heartbeat(sequence);
  return silent;
}

void WorkerRegistry::OnHeartbeat(size_t index, const wire::WorkerHeartbeat& heartbeat) {
  const std::lock_guard lock(mutex_);
  Worker& worker = *workers_[index];
  worker.last_seen = SteadyNow();
  worker.seen.beat = heartbeat;
  worker.seen.info.rss_bytes = heartbeat.rss_bytes;
  worker.seen.info.memory_available_bytes = heartbeat.memory_available_bytes;
  if (heartbeat.sequence == worker.beat)
    worker.seen.round_trip = worker.last_seen - worker.beat_sent;
}

void WorkerRegistry::MarkLost(size_t index, std::string_view why) {
  std::shared_ptr<wire::WorkerClient>
      client;  // a new channel next time: no back-off of the old one
  const std::lock_guard lock(mutex_);
  Worker& worker = *workers_[index];
  client.swap(worker.client);
  worker.alive = false;
  const bool ever_seen = !worker.seen.info.instance_id.empty();
  worker.seen.state = ever_seen ? WorkerState::kLost : WorkerState::kJoining;
  worker.seen.reason = why;
  worker.seen.info.pid = 0;
}

void WorkerRegistry::SetDraining(size_t worker, bool draining) {
  const std::lock_guard lock(mutex_);
  workers_[worker]->draining = draining;
}

bool WorkerRegistry::draining(size_t worker) const {
  const std::lock_guard lock(mutex_);
  return workers_[worker]->draining || !workers_[worker]->listed;
}

}  // namespace baton::coordinator
