// Runs the scheduler's micro-batches through the stages: one thread, an inbox, and the table of
// what is on its way.
//
// Everybody else (clients, transport, recovery) only puts things into the inbox. When a micro-batch
// fails or takes too long the pipeline pauses and says so; recovery resumes it with a new epoch,
// and results of older epochs are dropped.
#pragma once

#include <absl/time/time.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/scheduler.h"
#include "coordinator/sequence.h"
#include "coordinator/step_log.h"
#include "engine/base/status.h"
#include "proto/worker_client.h"

namespace baton::coordinator {

struct PipelineOptions {
  SchedulerOptions scheduler;
  // No stage has finished a micro-batch for so long, and for 20 times what one takes, nor read
  // anything from its disk: something hangs.
  absl::Duration step_deadline = absl::Seconds(60);
};

// Where the time went on one stage, since the start.
struct StageStats {
  uint64_t steps = 0;
  uint64_t queue_us = 0;
  uint64_t compute_us = 0;
  uint64_t send_us = 0;
  double step_ms = 0;     // of a micro-batch, recently
  double busy_share = 0;  // computing, in the last seconds
  double queue_ms = 0;    // that a micro-batch waits, recently
  double link_ms = 0;     // from the stage before into this one's queue, recently
};

struct PipelineStats {
  SchedulerStats scheduler;
  std::vector<StageStats> stages;
  int32_t in_flight = 0;
  double tokens_per_s = 0;  // in the last seconds
  double trip_ms = 0;       // of a micro-batch through all stages, recently
};

class Pipeline {
 public:
  struct Failure {
    uint64_t epoch = 0;
    int32_t stage = -1;  // that failed or hangs; -1: not known
    absl::Status status;
  };

  // `on_failure` is called on the pipeline's thread and must not block.
  Pipeline(const PipelineOptions& options, std::function<void(const Failure&)> on_failure);
  ~Pipeline();  // stops
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Any thread. Whatever goes wrong reaches the sequence's observer.
  void Submit(SequenceRequest request);
  void Cancel(uint64_t sequence_id);

  // Blocks that are read or written on the workers beside the micro-batches. Nothing on its way
  // touches them, and they stay what they are until GiveBack.
  struct Borrowed {
    std::vector<int32_t> blocks;
    uint64_t epoch = 0;  // with which they are lost
  };
  using BorrowDone = std::function<void(absl::StatusOr<Borrowed>)>;  // on the pipeline's thread
  // Those that hold the longest known prefix of `tokens`.
  void BorrowKnown(std::vector<engine::TokenId> tokens, BorrowDone done);
  // `count` new ones; ResourceExhausted where running sequences need too many.
  void BorrowFree(int32_t count, BorrowDone done);
  // `tokens`: what they hold now, found by later prompts; empty: nothing of use.
  void GiveBack(Borrowed borrowed, std::vector<engine::TokenId> tokens);
  // As Scheduler::Keep.
  void Keep(std::string name, std::vector<engine::TokenId> tokens);

  // From recovery. After Pause nothing is sent; Resume goes on with every open sequence, as
  // Scheduler::Restart.
  void Resume(uint64_t epoch, int32_t num_stages, int32_t lost_layers,
              std::shared_ptr<wire::WorkerLink> first);
  void Pause();
  // Ends all sequences, and new ones until Resume, with `status`.
  void Refuse(const absl::Status& status);
  // Ends all sequences, those that come later too, with Unavailable. Afterwards no observer of
  // earlier ones is called.
  void Stop();

  // From the transport: results, failures, timings and heartbeats of the worker that has `stage`.
  void OnWorkerEvent(int32_t stage, wire::WorkerEvent event);

  StepLog& log() { return log_; }  // any thread
  PipelineStats stats() const;     // as of the last tenth of a second

 private:
  struct Sent {
    absl::Time at;
    int32_t stages_done = 0;
  };

  // Waits until micro-batches up to `last_batch` are through.
  struct Borrower {
    uint64_t last_batch = 0;
    Borrowed borrowed;
    BorrowDone done;
  };

  void Post(std::function<void()> action);
  void PostBorrow(BorrowDone done, std::function<void(const BorrowDone&)> action);
  void Borrow(std::vector<int32_t> blocks, BorrowDone done);
  void ServeBorrowers();
  void Run();
  absl::Time NextWake() const;
  void SubmitReady();
  void OnEvent(int32_t stage, const wire::StepResult& result);
  void TakeResult(int32_t stage, const wire::StepResult& result);
  void OnEvent(int32_t stage, const wire::StepFailed& failed);
  void OnEvent(int32_t stage, const wire::StepTimed& timed);
  void OnEvent(int32_t stage, const wire::WorkerHeartbeat& beat);
  void OnEvent(int32_t, const wire::LinkClosed&) {}
  bool IsCurrent(uint64_t epoch) const { return first_ != nullptr && epoch == epoch_; }
  absl::Time StepDeadline() const;
  void CheckStepDeadline(absl::Time now);
  void Fail(int32_t stage, const absl::Status& status);
  void PublishStats(absl::Time now);

  const PipelineOptions options_;
  StepLog log_;
  const std::function<void(const Failure&)> on_failure_;

  // The pipeline's thread only.
  Scheduler scheduler_;
  std::shared_ptr<wire::WorkerLink> first_;  // null: paused
  uint64_t epoch_ = 0;
  absl::Status refusal_;
  std::map<uint64_t, Sent> in_flight_;
  std::map<uint64_t, wire::StepResult> early_;  // of micro-batches behind one that has not answered
  std::deque<Borrower> borrowers_;
  absl::Time last_progress_;
  std::vector<StageStats> stages_;
  std::vector<uint64_t> page_faults_;  // by stage, as last heard
  struct Window {                      // what the recent figures are measured over
    absl::Time begin;
    uint64_t new_tokens = 0;
    std::vector<uint64_t> compute_us = {};
  } window_;
  absl::Time published_;
  bool dirty_ = true;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> inbox_;  // guarded by mutex_
  bool stopping_ = false;                     // guarded by mutex_
  PipelineStats stats_;                       // guarded by mutex_

  std::thread thread_;  // last: uses all of the above
};

}  // namespace baton::coordinator
