// One stage of the pipeline, without its transport: loads, queues, runs, forwards, reports.
//
// Owner: worker_server (a process) or a LocalConnector (inside another). Any thread may call;
// nothing here runs a model but the worker's one compute thread. A second thread watches leases and
// files.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"
#include "proto/worker_client.h"
#include "worker/kv_store.h"
#include "worker/next_stage.h"
#include "worker/stage_queue.h"
#include "worker/stage_runner.h"

namespace baton::worker {

struct WorkerOptions {
  std::string name;
  uint64_t memory_budget_bytes = 0;  // 0: what the host has
  size_t queue_capacity = 64;        // micro-batches
  std::string kv_folder = {};        // for KV blocks that are to be kept; empty: the user's own
  uint64_t kv_limit_bytes = uint64_t{16} << 30;  // of files there
};

// Called with what the coordinator should know; must only hand it over. No call comes after Detach
// or LinkClosed.
using EventSink = std::function<void(wire::WorkerEvent)>;

class Worker {
 public:
  Worker(WorkerOptions options, std::unique_ptr<StageLoader> loader, NextStageFactory next_stages);
  ~Worker();  // ends the running step, drops the others
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  wire::WorkerInfo Info() const;

  // Loads in place of what is loaded, which goes first; one at a time, others wait. A request for
  // what is loaded already only takes the epoch and the next worker's address.
  absl::StatusOr<wire::LoadedStage> Load(const wire::LoadRequest& request,
                                         const LoadProgress& progress);
  void Unload();

  // The coordinator's attachment. A later one takes the place of one before it, whose sink gets
  // LinkClosed; an attachment that is silent for longer than its lease ends too. The stage stays
  // loaded, work in flight is dropped. `accepted` is called before any event, with the KV cache's
  // name (WorkerLink::kv_id).
  absl::StatusOr<uint64_t> Attach(const wire::WorkerClient::AttachOptions& options,
                                  const std::function<void(uint64_t kv_id)>& accepted,
                                  EventSink sink);
  void Detach(uint64_t attachment);

  // From an attached coordinator; ignored where another has taken its place. A step that can't be
  // taken comes back as StepFailed.
  void Submit(uint64_t attachment, std::shared_ptr<const engine::MicroBatch> batch);
  void SetEpoch(uint64_t attachment, uint64_t epoch);
  void Heartbeat(uint64_t attachment, uint64_t sequence);

  // From the worker before. Checks all of the step, but doesn't wait; a failure is reported to the
  // coordinator as well. `taken` is called once when the step has left the queue, also if its epoch
  // is over; never if this returns an error.
  absl::Status Enqueue(std::shared_ptr<const engine::MicroBatch> batch, engine::HiddenStates hidden,
                       std::function<void()> taken);

  // KV blocks of the loaded stage to a file of this host, or back; the file's bytes. Steps go on
  // between two blocks, so none of these may be theirs. FailedPrecondition: the epoch is over.
  absl::StatusOr<uint64_t> KvFile(const wire::KvFileRequest& request);

  // What a step from outside must look like.
  struct Expected {
    int32_t hidden_size = 0;
    int32_t max_rows = 0;
  };
  // Of a forward stream whose sender follows this pipeline: FailedPrecondition where model or
  // layers are others.
  absl::StatusOr<Expected> CheckSender(const std::string& fingerprint, int32_t first_layer) const;

 private:
  struct LoadedUnit;
  struct Attachment;
  struct RunningStep;

  // `fingerprint` of the model that the sender has in mind; empty: it was checked.
  absl::Status Push(const std::string& fingerprint, std::shared_ptr<const engine::MicroBatch> batch,
                    std::optional<engine::HiddenStates> hidden, std::function<void()> taken);
  absl::Status CheckBudget(const engine::StageSpec& spec) const;
  absl::StatusOr<std::unique_ptr<NextStage>> MakeNextStage(const wire::LoadRequest& request);
  void Measure(wire::Measure what, LoadedUnit* unit);  // before others see it
  std::shared_ptr<LoadedUnit> TakeUnit();              // waits for the running step
  void UnloadBroken(const std::shared_ptr<LoadedUnit>& unit);
  void RaiseEpoch(uint64_t epoch);  // with mutex_ held
  absl::StatusOr<uint64_t> ClaimKv(uint64_t epoch, uint64_t kv_id);

  // Calls `copy` between two steps, if the stage is still that one and the epoch not over.
  absl::Status WithStage(const std::shared_ptr<LoadedUnit>& unit, uint64_t epoch,
                         const std::function<absl::Status(StageRunner*)>& copy);

  // What a new load may take: the weights that are locked now would be given back before it.
  uint64_t AvailableBytes() const;

  void ComputeLoop();
  // None where the step's epoch is over or nothing is loaded.
  std::optional<RunningStep> StartStep(QueuedStep step);
  void FinishStep(RunningStep running);
  void WatchLoop();
  absl::Status CheckLease();
  void CheckFiles(uint64_t attachment);
  void End(uint64_t attachment,
           const absl::Status& why);  // tells the sink, if it is still that attachment's

  void Emit(uint64_t attachment, wire::WorkerEvent event);
  uint64_t current_attachment() const;

  const WorkerOptions options_;
  const std::unique_ptr<StageLoader> loader_;
  const NextStageFactory next_stages_;
  const std::string instance_id_;
  const std::string host_id_;

  std::mutex load_mutex_;    // held by Load and Unload; taken before all others
  std::mutex attach_mutex_;  // held by Attach; taken before those below
  std::mutex run_mutex_;     // held by the compute thread during a step

  mutable std::mutex mutex_;
  std::shared_ptr<LoadedUnit> unit_;  // guarded by mutex_
  bool loading_ = false;              // guarded by mutex_
  uint64_t epoch_ = 0;                // guarded by mutex_
  std::optional<uint64_t> last_id_;   // guarded by mutex_; of the newest step of this epoch

  mutable std::mutex sink_mutex_;           // taken after mutex_
  std::unique_ptr<Attachment> attachment_;  // guarded by sink_mutex_
  uint64_t attachments_ = 0;                // guarded by sink_mutex_; how many there were

  std::atomic<uint64_t> busy_us_ = 0;
  std::atomic<uint64_t> steps_ = 0;
  std::atomic<uint64_t> sent_bytes_ = 0;

  KvStore kv_store_;
  StageQueue queue_;
  std::mutex watch_mutex_;
  std::condition_variable watch_changed_;
  bool stopping_ = false;  // guarded by watch_mutex_
  std::thread compute_;
  std::thread watch_;
};

}  // namespace baton::worker
