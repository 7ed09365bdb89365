#include "coordinator/pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/steady_time.h"

namespace baton::coordinator {
namespace {

constexpr absl::Duration kPublishEvery = absl::Milliseconds(100);
constexpr absl::Duration kWindow = absl::Seconds(2);
constexpr double kSlowSteps = 20;

absl::Status ShuttingDown() { return Unavailable("coordinator: it is shutting down"); }

}  // namespace

Pipeline::Pipeline(const PipelineOptions& options, std::function<void(const Failure&)> on_failure)
    : options_(options),
      on_failure_(std::move(on_failure)),
      scheduler_(options.scheduler),
      stages_(options.scheduler.num_stages),
      thread_([this] { Run(); }) {}

Pipeline::~Pipeline() { Stop(); }

void Pipeline::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Pipeline::Post(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(action));
  }
  wake_.notify_one();
}

void Pipeline::Submit(SequenceRequest request) {
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      request.observer->OnEnd(EndReason::kError, ShuttingDown());
      return;
    }
    inbox_.push_back([this, request = std::move(request)]() mutable {
      const std::shared_ptr<SequenceObserver> observer = request.observer;
      const absl::Status status = refusal_.ok() ? scheduler_.Add(std::move(request)) : refusal_;
      if (!status.ok()) observer->OnEnd(EndReason::kError, status);
    });
  }
  wake_.notify_one();
}

void Pipeline::Cancel(uint64_t sequence_id) {
  Post([this, sequence_id] { scheduler_.Cancel(sequence_id, Cancelled("request: cancelled")); });
}

void Pipeline::Keep(std::string name, std::vector<engine::TokenId> tokens) {
  Post([this, name = std::move(name), tokens = std::move(tokens)] {
    scheduler_.Keep(name, tokens);
  });
}

void Pipeline::BorrowKnown(std::vector<engine::TokenId> tokens, BorrowDone done) {
  PostBorrow(std::move(done), [this, tokens = std::move(tokens)](const BorrowDone& answer) {
    Borrow(scheduler_.BorrowKnown(tokens), answer);
  });
}

void Pipeline::BorrowFree(int32_t count, BorrowDone done) {
  PostBorrow(std::move(done), [this, count](const BorrowDone& answer) {
    std::vector<int32_t> blocks = scheduler_.BorrowFree(count);
    if (blocks.empty() && count > 0) {
      answer(
          ResourceExhausted("KV cache: {} blocks are needed, running requests leave fewer", count));
      return;
    }
    Borrow(std::move(blocks), answer);
  });
}

// Whoever borrows waits for the answer, so there is one also when nobody looks into the inbox
// again.
void Pipeline::PostBorrow(BorrowDone done, std::function<void(const BorrowDone&)> action) {
  {
    std::unique_lock lock(mutex_);
    if (stopping_) {
      lock.unlock();
      done(ShuttingDown());
      return;
    }
    inbox_.push_back([done = std::move(done), action = std::move(action)] { action(done); });
  }
  wake_.notify_one();
}

void Pipeline::GiveBack(Borrowed borrowed, std::vector<engine::TokenId> tokens) {
  Post([this, borrowed = std::move(borrowed), tokens = std::move(tokens)]() mutable {
    if (borrowed.epoch != epoch_) tokens.clear();
    scheduler_.GiveBack(borrowed.blocks, tokens);
  });
}

// What was sent before may still write or read the blocks: stages work in order, files do not.
void Pipeline::Borrow(std::vector<int32_t> blocks, BorrowDone done) {
  borrowers_.push_back({scheduler_.last_batch_id(), {std::move(blocks), epoch_}, std::move(done)});
}

void Pipeline::ServeBorrowers() {
  while (!borrowers_.empty()) {
    Borrower& next = borrowers_.front();
    const bool lost = first_ == nullptr || next.borrowed.epoch != epoch_;
    if (!lost && scheduler_.oldest_in_flight() <= next.last_batch) return;
    const Borrower borrower = std::move(next);
    borrowers_.pop_front();
    if (lost) scheduler_.GiveBack(borrower.borrowed.blocks, {});
    borrower.done(lost ? absl::StatusOr<Borrowed>(
                             Unavailable("cluster: it is recovering, and its KV cache is lost"))
                       : borrower.borrowed);
  }
}

void Pipeline::Resume(uint64_t epoch, int32_t num_stages, int32_t lost_layers,
                      std::shared_ptr<wire::WorkerLink> first) {
  Post([this, epoch, num_stages, lost_layers, first = std::move(first)]() mutable {
    epoch_ = epoch;
    first_ = std::move(first);
    refusal_ = absl::OkStatus();
    in_flight_.clear();
    early_.clear();
    stages_.resize(num_stages);
    page_faults_.assign(num_stages, std::numeric_limits<uint64_t>::max());
    last_progress_ = SteadyNow();
    scheduler_.Restart(num_stages, lost_layers);
  });
}

void Pipeline::Pause() {
  Post([this] { first_ = nullptr; });
}

void Pipeline::Refuse(const absl::Status& status) {
  Post([this, status] {
    refusal_ = status;
    scheduler_.CancelAll(status);
  });
}

void Pipeline::OnWorkerEvent(int32_t stage, wire::WorkerEvent event) {
  Post([this, stage, event = std::move(event)] {
    std::visit([this, stage](const auto& e) { OnEvent(stage, e); }, event);
  });
}

PipelineStats Pipeline::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Pipeline::Run() {
  std::vector<std::function<void()>> actions;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto ready = [this] { return stopping_ || !inbox_.empty(); };
      const absl::Time wake = NextWake();
      if (wake == absl::InfiniteFuture()) {
        wake_.wait(lock, ready);
      } else {
        wake_.wait_until(lock, ToSteadyClock(wake), ready);
      }
      if (stopping_) break;
      actions.swap(inbox_);
    }
    if (!actions.empty()) dirty_ = true;
    for (const auto& action : actions) action();
    actions.clear();
    ServeBorrowers();
    const absl::Time now = SteadyNow();
    scheduler_.Expire(now);
    CheckStepDeadline(now);
    SubmitReady();
    scheduler_.Deliver();
    PublishStats(now);
  }
  // Requests that nobody has looked at hear of it too.
  {
    const std::lock_guard lock(mutex_);
    actions.swap(inbox_);
  }
  for (const auto& action : actions) action();
  for (const Borrower& borrower : borrowers_) borrower.done(ShuttingDown());
  scheduler_.CancelAll(ShuttingDown());
}

absl::Time Pipeline::NextWake() const {
  absl::Time wake = scheduler_.NextDeadline();
  if (dirty_) wake = std::min(wake, published_ + kPublishEvery);
  return std::min(wake, StepDeadline());
}

void Pipeline::SubmitReady() {
  if (first_ == nullptr) return;
  while (const std::shared_ptr<engine::MicroBatch> batch = scheduler_.Next()) {
    batch->epoch = epoch_;
    const absl::Time now = SteadyNow();
    if (in_flight_.empty()) last_progress_ = now;
    in_flight_.emplace(batch->id, Sent{.at = now});
    log_.Sent(*batch, stages_.size(), now);
    first_->Submit(batch);
  }
}

void Pipeline::OnEvent(int32_t stage, const wire::StepResult& result) {
  if (!IsCurrent(result.epoch)) return;
  // In the order in which they were sent: a stage that could not do one says so on its own link,
  // and what comes after that one rests on it. Those of a replay come from an earlier stage.
  if (const auto sent = in_flight_.find(result.batch_id);
      sent != in_flight_.end() && sent != in_flight_.begin()) {
    early_.insert_or_assign(result.batch_id, result);
    return;
  }
  TakeResult(stage, result);
  while (!early_.empty() && IsCurrent(result.epoch) &&
         early_.begin()->first == in_flight_.begin()->first) {
    const auto next = early_.extract(early_.begin());
    TakeResult(stage, next.mapped());
  }
}

void Pipeline::TakeResult(int32_t stage, const wire::StepResult& result) {
  in_flight_.erase(result.batch_id);
  last_progress_ = SteadyNow();
  log_.Returned(result.batch_id, last_progress_);
  if (const absl::Status status = scheduler_.OnResults(result.batch_id, result.results);
      !status.ok()) {
    scheduler_.OnFailure(result.batch_id, status);
    Fail(stage, status);
  }
}

void Pipeline::OnEvent(int32_t stage, const wire::StepFailed& failed) {
  if (!IsCurrent(failed.epoch)) return;
  // A peer that is gone is not the micro-batch's fault.
  if (!absl::IsUnavailable(failed.status)) scheduler_.OnFailure(failed.batch_id, failed.status);
  Fail(stage, failed.status);
}

void Pipeline::OnEvent(int32_t stage, const wire::StepTimed& timed) {
  if (!IsCurrent(timed.epoch) || stage >= static_cast<int32_t>(stages_.size())) return;
  scheduler_.OnTimed(timed.batch_id, stage, static_cast<double>(timed.timings.compute_us));
  StageStats& stats = stages_[stage];
  ++stats.steps;
  stats.queue_us += timed.timings.queue_us;
  stats.compute_us += timed.timings.compute_us;
  stats.send_us += timed.timings.send_us;
  last_progress_ = SteadyNow();
  log_.StageDone(timed.batch_id, static_cast<size_t>(stage), timed.timings, last_progress_);
  if (const auto sent = in_flight_.find(timed.batch_id); sent != in_flight_.end()) {
    sent->second.stages_done = std::max(sent->second.stages_done, stage + 1);
  }
}

// A stage whose weights come from a slow disk is slow, not dead: page by page it gets on.
void Pipeline::OnEvent(int32_t stage, const wire::WorkerHeartbeat& beat) {
  if (stage >= static_cast<int32_t>(page_faults_.size())) return;
  const uint64_t before = std::exchange(page_faults_[stage], beat.major_faults);
  if (beat.major_faults > before) last_progress_ = SteadyNow();
}

absl::Time Pipeline::StepDeadline() const {
  if (first_ == nullptr || in_flight_.empty()) return absl::InfiniteFuture();
  const absl::Duration slow = absl::Microseconds(kSlowSteps * scheduler_.step_times().slowest_us());
  return last_progress_ + std::max(options_.step_deadline, slow);
}

void Pipeline::CheckStepDeadline(absl::Time now) {
  const absl::Time deadline = StepDeadline();
  if (now < deadline) return;
  const auto& [id, sent] = *in_flight_.begin();
  Fail(sent.stages_done, DeadlineExceeded("no answer to micro-batch {} in {}", id,
                                          absl::FormatDuration(now - last_progress_)));
}

void Pipeline::Fail(int32_t stage, const absl::Status& status) {
  first_ = nullptr;
  on_failure_({.epoch = epoch_, .stage = stage, .status = status});
}

void Pipeline::PublishStats(absl::Time now) {
  if (!dirty_ || now - published_ < kPublishEvery) return;
  published_ = now;
  dirty_ = scheduler_.in_flight() > 0 || stats_.tokens_per_s > 0;
  const SchedulerStats scheduler = scheduler_.stats();
  const std::lock_guard lock(mutex_);
  if (now - window_.begin >= kWindow || window_.compute_us.size() != stages_.size()) {
    const double seconds = absl::ToDoubleSeconds(now - window_.begin);
    const bool measured = window_.compute_us.size() == stages_.size();
    for (size_t i = 0; measured && i < stages_.size(); ++i) {
      stages_[i].busy_share =
          std::min(1.0, (stages_[i].compute_us - window_.compute_us[i]) / 1e6 / seconds);
    }
    stats_.tokens_per_s = measured ? (scheduler.new_tokens - window_.new_tokens) / seconds : 0;
    window_ = {.begin = now, .new_tokens = scheduler.new_tokens};
    for (const StageStats& stage : stages_) window_.compute_us.push_back(stage.compute_us);
  }
  const std::vector<HopTimes> hops = log_.hops();
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (i < hops.size()) {
      stages_[i].queue_ms = hops[i].queue_ms;
      stages_[i].link_ms = hops[i].link_ms;
    }
    stages_[i].step_ms = scheduler_.step_times().stage_us(static_cast<int32_t>(i)) / 1e3;
  }
  stats_.scheduler = scheduler;
  stats_.stages = stages_;
  stats_.in_flight = scheduler_.in_flight();
  stats_.trip_ms = log_.trip_ms();
}

}  // namespace baton::coordinator
