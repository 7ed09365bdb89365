#include "coordinator/pipeline.h"

#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace baton::coordinator {
namespace {

// A worker that takes micro-batches and says nothing.
class SilentLink : public wire::WorkerLink {
 public:
  void Submit(std::shared_ptr<const engine::MicroBatch>) override {}
  void SetEpoch(uint64_t) override {}
  void Heartbeat(uint64_t) override {}
};

class Ignored : public SequenceObserver {
 public:
  bool OnResult(int32_t, const engine::RowResult&) override {
    ++results;
    return true;
  }
  void OnEnd(EndReason, const absl::Status&) override {}
  std::atomic<int> results = 0;
};

// As with weights on a throttled disk: steps take for ever, heartbeats tell of pages that came.
TEST(PipelineTest, AStageIsWaitedForAsLongAsItReadsItsDisk) {
  constexpr absl::Duration kBeat = absl::Milliseconds(50);
  PipelineOptions options;
  options.scheduler.num_stages = 1;
  options.scheduler.vocab_size = 1000;
  options.scheduler.context_length = 256;
  options.scheduler.num_kv_blocks = 16;
  options.step_deadline = 10 * kBeat;
  std::promise<Pipeline::Failure> fails;
  std::future<Pipeline::Failure> failed = fails.get_future();
  const auto fails_within = [&](absl::Duration time) {
    return failed.wait_for(absl::ToChronoNanoseconds(time)) == std::future_status::ready;
  };
  Pipeline pipeline(options, [&](const Pipeline::Failure& why) { fails.set_value(why); });
  pipeline.Resume(/*epoch=*/1, /*num_stages=*/1, Scheduler::kAllLayers,
                  std::make_shared<SilentLink>());
  SequenceRequest request;
  request.id = 1;
  request.tokens = {1, 2, 3};
  request.max_new_tokens = 1;
  request.observer = std::make_shared<Ignored>();
  pipeline.Submit(std::move(request));

  wire::WorkerHeartbeat beat{.major_faults = 100};
  for (int i = 0; i < 30; ++i) {
    beat.major_faults += 3;
    pipeline.OnWorkerEvent(0, beat);
    ASSERT_FALSE(fails_within(kBeat)) << failed.get().status;
  }
  // It lives, but gets nowhere.
  for (int i = 0; i < 1000 && !fails_within(kBeat); ++i) pipeline.OnWorkerEvent(0, beat);
  ASSERT_TRUE(fails_within(absl::ZeroDuration()));
  const Pipeline::Failure failure = failed.get();
  EXPECT_TRUE(absl::IsDeadlineExceeded(failure.status)) << failure.status;
  EXPECT_EQ(failure.stage, 0);
}

// The second half of a prompt comes back, the word that a stage could not do the first is slower.
TEST(PipelineTest, WhatRestsOnAFailedMicroBatchIsNotTaken) {
  PipelineOptions options;
  options.scheduler.num_stages = 2;
  options.scheduler.vocab_size = 1000;
  options.scheduler.context_length = 256;
  options.scheduler.num_kv_blocks = 16;
  options.scheduler.chunk_rows = 32;
  for (const bool fails : {true, false}) {
    absl::Notification failed;
    Pipeline pipeline(options, [&](const Pipeline::Failure&) { failed.Notify(); });
    pipeline.Resume(/*epoch=*/1, /*num_stages=*/2, Scheduler::kAllLayers,
                    std::make_shared<SilentLink>());
    const auto observer = std::make_shared<Ignored>();
    SequenceRequest request;
    request.id = 1;
    request.tokens.assign(64, 5);
    request.max_new_tokens = 2;
    request.observer = observer;
    pipeline.Submit(std::move(request));
    while (pipeline.stats().in_flight < 2) absl::SleepFor(absl::Milliseconds(5));
    wire::StepResult second{.batch_id = 2, .epoch = 1, .results = {}};
    second.results.emplace_back().row = 31;
    second.results.back().token = 7;
    pipeline.OnWorkerEvent(1, std::move(second));
    if (fails) {
      pipeline.OnWorkerEvent(0, wire::StepFailed{1, 1, Internal("no")});
      failed.WaitForNotification();
    } else {
      pipeline.OnWorkerEvent(1, wire::StepResult{.batch_id = 1, .epoch = 1, .results = {}});
      while (observer->results == 0) absl::SleepFor(absl::Milliseconds(1));
    }
    pipeline.Stop();
    EXPECT_EQ(observer->results, fails ? 0 : 1);
  }
}

// Sending to a client takes time, which stages need not wait.
TEST(PipelineTest, TheNextMicroBatchGoesBeforeTheToken) {
  struct Step {  // shared: the link notes what was sent, the observer what that was at its call
    std::atomic<int> sent = 0, at_result = -1, at_delivery = -1;
  };
  class CountingLink : public SilentLink {
   public:
    explicit CountingLink(std::shared_ptr<Step> step) : step_(std::move(step)) {}
    void Submit(std::shared_ptr<const engine::MicroBatch>) override { ++step_->sent; }

   private:
    const std::shared_ptr<Step> step_;
  };
  class Client : public Ignored {
   public:
    explicit Client(std::shared_ptr<Step> step) : step_(std::move(step)) {}
    bool OnResult(int32_t, const engine::RowResult&) override {
      step_->at_result = step_->sent.load();
      return true;
    }
    void Deliver() override { step_->at_delivery = step_->sent.load(); }

   private:
    const std::shared_ptr<Step> step_;
  };
  PipelineOptions options;
  options.scheduler.num_stages = 1;
  options.scheduler.vocab_size = 1000;
  options.scheduler.context_length = 256;
  options.scheduler.num_kv_blocks = 16;
  const auto step = std::make_shared<Step>();
  Pipeline pipeline(options, [](const Pipeline::Failure&) {});
  pipeline.Resume(/*epoch=*/1, /*num_stages=*/1, Scheduler::kAllLayers,
                  std::make_shared<CountingLink>(step));
  SequenceRequest request;
  request.id = 1;
  request.tokens = {5};
  request.max_new_tokens = 2;
  request.observer = std::make_shared<Client>(step);
  pipeline.Submit(std::move(request));
  while (step->sent < 1) absl::SleepFor(absl::Milliseconds(1));
  wire::StepResult result{.batch_id = 1, .epoch = 1, .results = {}};
  result.results.emplace_back().token = 7;
  pipeline.OnWorkerEvent(0, result);
  while (step->at_delivery < 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(step->at_result, 1);
  EXPECT_EQ(step->at_delivery, 2);
}

}  // namespace
}  // namespace baton::coordinator
