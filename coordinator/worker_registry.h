// What the coordinator knows of each worker: who it is, what it has loaded, whether it is alive.
//
// Recovery drives it from one thread; heartbeats arrive from the transport; anybody may take a
// snapshot.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/topology.h"
#include "engine/arch/layer_range.h"
#include "engine/base/status.h"
#include "proto/worker_client.h"

namespace baton::coordinator {

enum class WorkerState : uint8_t { kJoining, kLoading, kReady, kSuspect, kLost, kDraining };
std::string_view WorkerStateName(WorkerState state);  // "joining", …

// For status and metrics.
struct WorkerSnapshot {
  size_t worker = 0;  // in the registry
  std::string name;
  std::string address;
  bool spare = false;
  WorkerState state = WorkerState::kJoining;
  std::string reason;          // why it is lost
  wire::WorkerInfo info;       // pid 0 while it is down
  wire::WorkerHeartbeat beat;  // the last
  engine::LayerRange layers;   // its stage; empty: none
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;
  double load_progress = 0;  // 0 … 1
  absl::Duration round_trip;
  std::vector<std::string> warnings;  // of the load
};

class WorkerRegistry {
 public:
  // `connector` must outlive the registry.
  WorkerRegistry(const std::vector<WorkerEntry>& workers, const std::vector<WorkerEntry>& spares,
                 wire::WorkerConnector* connector);
  ~WorkerRegistry();

  // The topology's from now on. Who was there before keeps its number and what is known of it; who
  // is not there any more leaves: it counts as drained, and is forgotten once it has no stage.
  void SetWorkers(const std::vector<WorkerEntry>& workers, const std::vector<WorkerEntry>& spares);
  // Only these have a stage.
  void NotePlaced(std::span<const size_t> placed);

  // Those of the topology in its order, spares last, and then those that are leaving.
  std::vector<size_t> current() const;
  bool listed(size_t worker) const;  // in the topology
  WorkerEntry entry(size_t worker) const;
  bool is_spare(size_t worker) const;
  std::vector<WorkerSnapshot> Snapshot() const;  // of current()
  std::optional<size_t> Find(std::string_view name) const;

  // Asks all workers at the same time who they are; those that do not answer are lost.
  void Refresh(absl::Duration timeout);
  // The same for those that have no stage: lost and drained ones may be back, idle ones may have
  // gone, or be another process. Who was heard less than `patience` ago and does not answer may be
  // slow. Returns those that have gone.
  std::vector<size_t> RefreshIdle(absl::Duration timeout, absl::Duration patience);
  bool alive(size_t worker) const;
  wire::WorkerInfo info(size_t worker) const;
  std::string reason(size_t worker) const;
  wire::LoadedStage loaded(size_t worker) const;  // what Load brought last

  absl::StatusOr<uint64_t> KvFile(size_t worker, const wire::KvFileRequest& request,
                                  absl::Duration timeout);

  // Of the way from here to a worker.
  absl::StatusOr<wire::LinkSpeed> MeasureLink(size_t worker);

  // Loads a stage; blocks, but not for longer than `patience` without progress. `stopping` gives
  // up.
  absl::Status Load(size_t worker, const wire::LoadRequest& request, absl::Duration patience,
                    const std::atomic<bool>& stopping);
  absl::Status Attach(size_t worker, const wire::WorkerClient::AttachOptions& options,
                      std::function<void(wire::WorkerEvent)> on_event, absl::Duration timeout);
  std::shared_ptr<wire::WorkerLink> link(size_t worker) const;
  void DetachAll();

  // Heartbeats of the attached workers: sends one to each, and says who has been silent for longer
  // than `lease`.
  std::vector<size_t> Beat(absl::Time now, absl::Duration lease);
  void OnHeartbeat(size_t worker, const wire::WorkerHeartbeat& heartbeat);

  void MarkLost(size_t worker, std::string_view why);
  void SetDraining(size_t worker, bool draining);
  bool draining(size_t worker) const;  // or leaving

 private:
  struct Worker {
    WorkerEntry entry;
    bool spare = false;
    bool listed = true;  // in the topology
    bool alive = false;
    bool draining = false;
    std::shared_ptr<wire::WorkerClient> client;
    std::shared_ptr<wire::WorkerLink> link;
    WorkerSnapshot seen;
    wire::LoadedStage loaded;
    absl::Time last_seen;
    uint64_t beat = 0;
    absl::Time beat_sent;
  };

  std::shared_ptr<wire::WorkerClient> ClientOf(size_t worker);
  void Query(size_t worker, absl::Duration timeout, absl::Duration patience);

  wire::WorkerConnector* const connector_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;  // all there ever were; guarded by mutex_
  std::vector<size_t> current_;                   // guarded by mutex_
};

// Calls function(0) … function(count - 1) at the same time and waits for all.
void InParallel(size_t count, const std::function<void(size_t)>& function);

}  // namespace baton::coordinator
