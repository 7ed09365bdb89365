#include "worker/stage_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace baton::worker {
namespace {

void Release(QueuedStep& step) {
  if (auto taken = std::exchange(step.taken, nullptr)) taken();
}

}  // namespace

absl::Status StageQueue::Push(QueuedStep step) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Unavailable("the worker is shutting down");
    if (steps_.size() >= capacity_) {
      return ResourceExhausted("micro-batch {}: the worker's queue is full ({} wait)",
                               step.batch->id, capacity_);
    }
    steps_.push_back(std::move(step));
  }
  changed_.notify_one();
  return absl::OkStatus();
}

std::optional<QueuedStep> StageQueue::Pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !steps_.empty(); });
  return Take(std::move(lock));
}

std::optional<QueuedStep> StageQueue::TryPop() { return Take(std::unique_lock(mutex_)); }

std::optional<QueuedStep> StageQueue::Take(std::unique_lock<std::mutex> lock) {
  if (closed_ || steps_.empty()) return std::nullopt;
  QueuedStep step = std::move(steps_.front());
  steps_.pop_front();
  lock.unlock();
  Release(step);
  return step;
}

template <typename Condition>
void StageQueue::DropIf(Condition condition) {
  std::vector<QueuedStep> dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto kept = std::stable_partition(steps_.begin(), steps_.end(),
                                            [&](const QueuedStep& s) { return !condition(s); });
    dropped.assign(std::move_iterator(kept), std::move_iterator(steps_.end()));
    steps_.erase(kept, steps_.end());
  }
  for (QueuedStep& step : dropped) Release(step);
}

void StageQueue::DropOlderThan(uint64_t epoch) {
  DropIf([epoch](const QueuedStep& step) { return step.batch->epoch < epoch; });
}

void StageQueue::DropAll() {
  DropIf([](const QueuedStep&) { return true; });
}

void StageQueue::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  DropAll();
}

size_t StageQueue::size() const {
  const std::lock_guard lock(mutex_);
  return steps_.size();
}

}  // namespace baton::worker
