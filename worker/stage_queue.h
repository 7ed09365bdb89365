// Micro-batches that wait for the compute thread, first in, first out, and never more than there is
// room for.
//
// Owner: a Worker. Transport threads push, the compute thread pops.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"

namespace baton::worker {

struct QueuedStep {
  std::shared_ptr<const engine::MicroBatch> batch;
  std::optional<engine::HiddenStates> hidden;  // absent at the first stage
  uint64_t attachment = 0;                     // of the coordinator whose work it is
  std::chrono::steady_clock::time_point queued_at;
  std::function<void()> taken;  // once, when the step leaves the queue, whichever way; may be empty
};

class StageQueue {
 public:
  explicit StageQueue(size_t capacity) : capacity_(capacity) {}

  absl::Status Push(
      QueuedStep step);  // ResourceExhausted when full; the step's `taken` isn't called then
  std::optional<QueuedStep> Pop();     // waits; nothing after Close
  std::optional<QueuedStep> TryPop();  // nothing where nothing waits
  void DropOlderThan(uint64_t epoch);
  void DropAll();
  void Close();
  size_t size() const;

 private:
  std::optional<QueuedStep> Take(std::unique_lock<std::mutex> lock);
  template <typename Condition>
  void DropIf(Condition condition);

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<QueuedStep> steps_;  // guarded by mutex_
  bool closed_ = false;           // guarded by mutex_
};

}  // namespace baton::worker
