// Worker over the transport inside a process: what must hold whatever carries the messages.
#include "worker/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <semaphore>
#include <thread>

#include "tests/support/fake_pipeline.h"
#include "worker/local_connector.h"

namespace baton::worker {
namespace {

using namespace std::chrono_literals;
using ::baton::testing::EventLog;
using ::baton::testing::Fails;
using ::baton::testing::FakeBatch;
using ::baton::testing::FakePipeline;
using ::baton::testing::FakeSpec;
using ::baton::testing::FakeStageControl;
using ::baton::testing::FakeStageLoader;
using ::baton::testing::FakeStageToken;
using ::baton::testing::IsOk;
using ::baton::testing::kCallTimeout;

// Holds the steps of a stage back until the test lets them go.
class Gate {
 public:
  std::function<void(const engine::MicroBatch&)> hook() {
    return [this](const engine::MicroBatch&) {
      ++entered_;
      open_.acquire();
    };
  }
  void Let(int steps) { open_.release(steps); }
  void AwaitEntered(int steps) {
    while (entered_ < steps) std::this_thread::sleep_for(1ms);
  }
  int entered() const { return entered_; }

 private:
  std::atomic<int> entered_ = 0;
  std::counting_semaphore<> open_{0};
};

class WorkerTest : public ::testing::Test {
 protected:
  void AddWorkers(int count) {
    for (int i = 0; i < count; ++i) {
      addresses_.push_back(fmt::format("stage-{}", i));
      controls_.push_back(std::make_shared<FakeStageControl>());
      AddWorker(i);
    }
    pipeline_.emplace(&connector_, addresses_);
  }
  void AddWorker(size_t i) {
    connector_.Add(addresses_[i], {.name = addresses_[i]},
                   std::make_unique<FakeStageLoader>(controls_[i]));
  }

  std::vector<std::string> addresses_;
  std::vector<std::shared_ptr<FakeStageControl>> controls_;
  LocalConnector connector_;
  std::optional<FakePipeline> pipeline_;
};

TEST_F(WorkerTest, ResultsComeInOrderAndWhole) {
  for (const int stages : {1, 2, 3}) {
    addresses_.clear();
    controls_.clear();
    pipeline_.reset();
    AddWorkers(stages);
    ASSERT_THAT(pipeline_->Start(1), IsOk());
    for (uint64_t id = 1; id <= 20; ++id) {
      pipeline_->first().Submit(FakeBatch(id, 1, static_cast<int32_t>(id), 100));
      const auto result = pipeline_->last_log().Next<wire::StepResult>();
      ASSERT_TRUE(result.has_value());
      EXPECT_EQ(result->batch_id, id);
      EXPECT_EQ(result->epoch, 1u);
      ASSERT_EQ(result->results.size(), 1u);
      EXPECT_EQ(result->results[0].token, FakeStageToken(100 + static_cast<int32_t>(id) - 1));
    }
    for (int stage = 0; stage < stages; ++stage) {
      for (int i = 0; i < 20; ++i)
        ASSERT_TRUE(pipeline_->log(stage).Next<wire::StepTimed>().has_value());
    }
  }
}

TEST_F(WorkerTest, ManyInFlightKeepTheirOrder) {
  AddWorkers(3);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  for (uint64_t id = 1; id <= 50; ++id) pipeline_->first().Submit(FakeBatch(id, 1, 3));
  for (uint64_t id = 1; id <= 50; ++id) {
    const auto result = pipeline_->last_log().Next<wire::StepResult>();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->batch_id, id);
  }
}

TEST_F(WorkerTest, AStepStartsBeforeTheOneBeforeItIsFinishedWhereADeviceOverlaps) {
  AddWorkers(2);
  Gate gate;
  controls_[0]->on_run = gate.hook();
  controls_[0]->overlaps = true;
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  for (uint64_t id = 1; id <= 3; ++id) pipeline_->first().Submit(FakeBatch(id, 1));
  gate.AwaitEntered(1);
  gate.Let(10);
  for (uint64_t id = 1; id <= 3; ++id) {
    const auto result = pipeline_->last_log().Next<wire::StepResult>();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->batch_id, id);
    ASSERT_TRUE(pipeline_->log(0).Next<wire::StepTimed>().has_value());
  }
  EXPECT_EQ(controls_[0]->order, (std::vector<std::string>{"start 1", "start 2", "finish 1",
                                                           "start 3", "finish 2", "finish 3"}));
}

TEST_F(WorkerTest, TheWindowBoundsWhatIsOnItsWay) {
  AddWorkers(2);
  Gate gate;
  controls_[1]->on_run = gate.hook();
  std::atomic<int> first_stage_steps = 0;
  controls_[0]->on_run = [&](const engine::MicroBatch&) { ++first_stage_steps; };
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  for (uint64_t id = 1; id <= 30; ++id) pipeline_->first().Submit(FakeBatch(id, 1));
  gate.AwaitEntered(1);
  // One runs, the window's worth waits behind it, one more is computed and waits for room.
  const int most = 1 + kForwardWindow + 1;
  while (first_stage_steps < most) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(first_stage_steps, most);
  gate.Let(30);
  for (uint64_t id = 1; id <= 30; ++id)
    ASSERT_EQ(pipeline_->last_log().Next<wire::StepResult>()->batch_id, id);
}

TEST_F(WorkerTest, ANewEpochDropsWhatIsOlder) {
  AddWorkers(2);
  Gate gate;
  controls_[1]->on_run = gate.hook();
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  for (uint64_t id = 1; id <= 12; ++id) pipeline_->first().Submit(FakeBatch(id, 1));
  gate.AwaitEntered(1);
  for (auto& link : pipeline_->links()) link->SetEpoch(2);
  gate.Let(1000);
  pipeline_->first().Submit(FakeBatch(1, 2));
  for (;;) {
    const auto result = pipeline_->last_log().Next<wire::StepResult>();
    ASSERT_TRUE(result.has_value());
    if (result->epoch == 2) break;
    EXPECT_EQ(result->batch_id, 1u);  // only the one that was running
  }
  pipeline_->first().Submit(FakeBatch(3, 1));  // late
  pipeline_->first().Submit(FakeBatch(2, 2));
  const auto result = pipeline_->last_log().Next<wire::StepResult>();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->batch_id, 2u);
  EXPECT_EQ(result->epoch, 2u);
}

TEST_F(WorkerTest, AHostileBatchIsRefusedByName) {
  AddWorkers(1);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  struct Case {
    const char* what;
    std::function<void(engine::MicroBatch&)> spoil;
  };
  uint64_t id = 0;
  const Case cases[] = {
      {"no rows", [](auto& b) { b.tokens.clear(); }},
      {"token out of range", [](auto& b) { b.tokens[0] = 1'000'000; }},
      {"negative token", [](auto& b) { b.tokens[0] = -1; }},
      {"too many rows", [](auto& b) { b.tokens.resize(100'000); }},
      {"position beyond the context", [](auto& b) { b.sequences[0].first_position = 1 << 30; }},
      {"negative position", [](auto& b) { b.sequences[0].first_position = -1; }},
      {"rows that overflow", [](auto& b) { b.sequences[0].num_rows = 0x7fffffff; }},
      {"unknown KV block", [](auto& b) { b.sequences[0].kv_blocks[0] = 64; }},
      {"no KV block", [](auto& b) { b.sequences[0].kv_blocks.clear(); }},
      {"output of no row", [](auto& b) { b.outputs[0].row = 5; }},
  };
  for (const Case& c : cases) {
    auto batch = FakeBatch(++id, 1);
    c.spoil(*batch);
    pipeline_->first().Submit(batch);
    const auto failed = pipeline_->log(0).Next<wire::StepFailed>();
    ASSERT_TRUE(failed.has_value()) << c.what;
    EXPECT_EQ(failed->batch_id, id);
    EXPECT_THAT(failed->status, Fails(absl::StatusCode::kInvalidArgument, "")) << c.what;
  }
  pipeline_->first().Submit(FakeBatch(++id, 1));
  EXPECT_EQ(pipeline_->log(0).Next<wire::StepResult>()->batch_id, id);
}

TEST_F(WorkerTest, AReplayIsRefused) {
  AddWorkers(1);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  pipeline_->first().Submit(FakeBatch(5, 1));
  pipeline_->first().Submit(FakeBatch(5, 1));
  const auto failed = pipeline_->log(0).Next<wire::StepFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_THAT(failed->status, Fails(absl::StatusCode::kInvalidArgument,
                                    "micro-batch 5: out of order, the last one was 5"));
}

TEST_F(WorkerTest, WrongHiddenStatesAreRefused) {
  Worker worker({.name = "second"}, std::make_unique<FakeStageLoader>(),
                [](NextStageOptions) -> absl::StatusOr<std::unique_ptr<NextStage>> {
                  return Internal("the last stage needs none");
                });
  ASSERT_THAT(worker.Load({.spec = FakeSpec(3, 6),
                           .epoch = 1,
                           .next_address = "",
                           .wire_type = {},
                           .part_sources = {}},
                          nullptr),
              IsOk());
  EXPECT_THAT(worker.CheckSender("fake-model", 3), IsOk());
  EXPECT_THAT(worker.CheckSender("other-model", 3),
              Fails(absl::StatusCode::kFailedPrecondition, "expected layer 3 of fake-model"));
  EXPECT_THAT(worker.CheckSender("fake-model", 2),
              Fails(absl::StatusCode::kFailedPrecondition, "layer 2"));
  const auto hidden = [](int32_t rows, int32_t cols, size_t values) {
    return engine::HiddenStates{rows, cols, std::vector<float>(values)};
  };
  EXPECT_THAT(worker.Enqueue(FakeBatch(1, 1, 2), hidden(1, 64, 64), nullptr),
              Fails(absl::StatusCode::kInvalidArgument, "shape [1, 64], expected [2, 64]"));
  EXPECT_THAT(worker.Enqueue(FakeBatch(1, 1, 2), hidden(2, 63, 126), nullptr),
              Fails(absl::StatusCode::kInvalidArgument, "expected [2, 64]"));
  EXPECT_THAT(worker.Enqueue(FakeBatch(1, 1, 2), hidden(2, 64, 127), nullptr),
              Fails(absl::StatusCode::kInvalidArgument, "expected [2, 64]"));
  for (const float value : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY}) {
    engine::HiddenStates bad = hidden(2, 64, 128);
    bad.values[127] = value;
    EXPECT_THAT(worker.Enqueue(FakeBatch(1, 1, 2), bad, nullptr),
                Fails(absl::StatusCode::kInvalidArgument, "finite"));
  }
  EXPECT_THAT(worker.Enqueue(FakeBatch(1, 1, 2), hidden(2, 64, 128), nullptr), IsOk());
}

TEST_F(WorkerTest, AStageIsLoadedOnce) {
  AddWorkers(2);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  ASSERT_THAT(pipeline_->Start(2), IsOk());
  EXPECT_EQ(controls_[0]->loads, 1);
  pipeline_->first().Submit(FakeBatch(1, 2));
  ASSERT_TRUE(pipeline_->last_log().Next<wire::StepResult>().has_value());

  const auto info = pipeline_->client(0).GetInfo(kCallTimeout);
  ASSERT_THAT(info, IsOk());
  EXPECT_TRUE(info->loaded);
  EXPECT_EQ(info->stage.layers, (engine::LayerRange{0, 3}));
  EXPECT_EQ(info->stage.fingerprint, "fake-model");
  EXPECT_EQ(info->epoch, 2u);
  EXPECT_GT(info->rss_bytes, 0u);
  EXPECT_GT(info->memory_total_bytes, info->rss_bytes);
  EXPECT_GE(info->memory_total_bytes, info->memory_available_bytes);

  ASSERT_THAT(pipeline_->client(0).UnloadStage(kCallTimeout), IsOk());
  EXPECT_FALSE(pipeline_->client(0).GetInfo(kCallTimeout)->loaded);
  ASSERT_THAT(pipeline_->Start(3), IsOk());
  EXPECT_EQ(controls_[0]->loads, 2);
  EXPECT_EQ(controls_[1]->loads, 1);
}

TEST_F(WorkerTest, UnloadingWaitsForTheRunningStepAndDropsTheOthers) {
  AddWorkers(1);
  Gate gate;
  controls_[0]->on_run = gate.hook();
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  for (uint64_t id = 1; id <= 5; ++id) pipeline_->first().Submit(FakeBatch(id, 1));
  gate.AwaitEntered(1);
  std::atomic<bool> unloaded = false;
  std::thread unload([&] {
    ASSERT_THAT(pipeline_->client(0).UnloadStage(kCallTimeout), IsOk());
    unloaded = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(unloaded);
  gate.Let(10);
  unload.join();
  EXPECT_EQ(gate.entered(), 1);
  pipeline_->first().Submit(FakeBatch(6, 1));
  const auto failed = pipeline_->log(0).Next<wire::StepFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_THAT(failed->status, Fails(absl::StatusCode::kFailedPrecondition, "no stage is loaded"));
}

TEST_F(WorkerTest, ALaterCoordinatorTakesOver) {
  AddWorkers(1);
  ASSERT_THAT(pipeline_->Start(5), IsOk());
  EventLog other;
  EXPECT_THAT(pipeline_->client(0).Attach({.fingerprint = "fake-model", .epoch = 4}, other.sink(),
                                          kCallTimeout),
              Fails(absl::StatusCode::kFailedPrecondition, "epoch 4 is over, the newest is 5"));
  auto link = pipeline_->client(0).Attach({.fingerprint = "fake-model", .epoch = 6}, other.sink(),
                                          kCallTimeout);
  ASSERT_THAT(link, IsOk());
  const auto closed = pipeline_->log(0).Next<wire::LinkClosed>();
  ASSERT_TRUE(closed.has_value());
  EXPECT_THAT(closed->status, Fails(absl::StatusCode::kAborted, "another coordinator"));
  pipeline_->first().Submit(FakeBatch(1, 6));  // by the old one: no effect
  (*link)->Submit(FakeBatch(2, 6));
  EXPECT_EQ(other.Next<wire::StepResult>()->batch_id, 2u);
  pipeline_->links().clear();
  (*link)->Submit(FakeBatch(3, 6));
  EXPECT_EQ(other.Next<wire::StepResult>()->batch_id, 3u);
}

// A coordinator counts on what its micro-batches have left in the KV cache only where nobody else
// was there since.
TEST_F(WorkerTest, TheKvCacheKeepsItsNameOnlyForWhoeverHadIt) {
  AddWorkers(1);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  const uint64_t mine = pipeline_->first().kv_id();
  EXPECT_NE(mine, 0u);
  EventLog log;
  const auto attach = [&](uint64_t epoch, uint64_t kv_id) {
    auto link = pipeline_->client(0).Attach(
        {.fingerprint = "fake-model", .epoch = epoch, .kv_id = kv_id}, log.sink(), kCallTimeout);
    EXPECT_THAT(link, IsOk());
    return link.ok() ? (*link)->kv_id() : 0;
  };
  EXPECT_EQ(attach(2, mine), mine);
  const uint64_t another = attach(3, 0);
  EXPECT_NE(another, mine);
  EXPECT_NE(attach(4, mine), mine);
  const uint64_t last = attach(5, 0);
  pipeline_->links().clear();
  ASSERT_THAT(pipeline_->client(0).UnloadStage(kCallTimeout), IsOk());
  ASSERT_THAT(pipeline_->Start(6), IsOk());
  EXPECT_NE(attach(7, last), last);
}

TEST_F(WorkerTest, AMicroBatchMayEndBeforeTheLastStage) {
  AddWorkers(2);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  engine::MicroBatch batch = *FakeBatch(1, 1);
  batch.outputs.clear();
  batch.end_layer = testing::kFakeLayers / 2;
  pipeline_->first().Submit(std::make_shared<const engine::MicroBatch>(batch));
  const auto result = pipeline_->log(0).Next<wire::StepResult>();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->batch_id, 1u);
  EXPECT_TRUE(result->results.empty());
  pipeline_->first().Submit(FakeBatch(2, 1));
  EXPECT_EQ(pipeline_->last_log().Next<wire::StepResult>()->batch_id, 2u);
}

TEST_F(WorkerTest, ASilentCoordinatorLosesItsLease) {
  AddWorkers(1);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  EventLog log;
  auto link = pipeline_->client(0).Attach(
      {.fingerprint = "fake-model", .epoch = 2, .lease = absl::Milliseconds(300)}, log.sink(),
      kCallTimeout);
  ASSERT_THAT(link, IsOk());
  for (uint64_t beat = 1; beat <= 8; ++beat) {
    (*link)->Heartbeat(beat);
    std::this_thread::sleep_for(60ms);
  }
  for (uint64_t beat = 1; beat <= 8; ++beat)
    EXPECT_EQ(log.Next<wire::WorkerHeartbeat>()->sequence, beat);
  EXPECT_EQ(log.Count<wire::LinkClosed>(), 0u);
  const auto closed = log.Next<wire::LinkClosed>();
  ASSERT_TRUE(closed.has_value());
  EXPECT_THAT(closed->status, Fails(absl::StatusCode::kDeadlineExceeded, "lease of 300 ms"));
  EXPECT_TRUE(pipeline_->client(0).GetInfo(kCallTimeout)->loaded);
}

TEST_F(WorkerTest, ALostNextWorkerIsNamedAndANewEpochFindsTheNewOne) {
  AddWorkers(2);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  pipeline_->first().Submit(FakeBatch(1, 1));
  ASSERT_TRUE(pipeline_->last_log().Next<wire::StepResult>().has_value());
  connector_.Remove(addresses_[1]);
  ASSERT_TRUE(pipeline_->log(1).Next<wire::LinkClosed>().has_value());
  for (uint64_t id = 2; id <= 3; ++id) {
    pipeline_->first().Submit(FakeBatch(id, 1));
    const auto failed = pipeline_->log(0).Next<wire::StepFailed>();
    ASSERT_TRUE(failed.has_value());
    EXPECT_THAT(failed->status, Fails(absl::StatusCode::kUnavailable, "stage-1"));
  }
  EXPECT_THAT(pipeline_->client(1).GetInfo(kCallTimeout),
              Fails(absl::StatusCode::kUnavailable, "stage-1"));
  AddWorker(1);
  ASSERT_THAT(pipeline_->Start(2), IsOk());
  EXPECT_EQ(controls_[0]->loads, 1);
  EXPECT_EQ(controls_[1]->loads, 2);
  pipeline_->first().Submit(FakeBatch(1, 2));
  EXPECT_EQ(pipeline_->last_log().Next<wire::StepResult>()->epoch, 2u);
}

TEST_F(WorkerTest, AChangedFileEndsTheStageByName) {
  AddWorkers(1);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  controls_[0]->file_changed = true;
  const auto closed = pipeline_->log(0).Next<wire::LinkClosed>();
  ASSERT_TRUE(closed.has_value());
  EXPECT_THAT(closed->status, Fails(absl::StatusCode::kDataLoss, "model.gguf"));
  EXPECT_FALSE(pipeline_->client(0).GetInfo(kCallTimeout)->loaded);
}

TEST_F(WorkerTest, SpeedsAreMeasuredWhenAskedAndKept) {
  AddWorkers(1);
  wire::LoadRequest request = pipeline_->Request(0, 1);
  const auto plain = pipeline_->client(0).LoadStage(request, nullptr, kCallTimeout);
  ASSERT_THAT(plain, IsOk());
  EXPECT_FALSE(plain->speed.known());
  request.measure = wire::Measure::kAlone;
  const auto alone = pipeline_->client(0).LoadStage(request, nullptr, kCallTimeout);
  ASSERT_THAT(alone, IsOk());
  EXPECT_GT(alone->speed.alone_us, 0);
  EXPECT_FALSE(alone->speed.known());
  request.measure = wire::Measure::kTogether;
  const auto measured = pipeline_->client(0).LoadStage(request, nullptr, kCallTimeout);
  ASSERT_THAT(measured, IsOk());
  EXPECT_EQ(measured->speed.many_rows, 8);
  EXPECT_EQ(measured->speed.prompt_rows, 64);
  EXPECT_GT(measured->speed.one_row_us, 0);
  EXPECT_EQ(measured->speed.alone_us, alone->speed.alone_us);
  request.measure = wire::Measure::kNone;
  const auto again = pipeline_->client(0).LoadStage(request, nullptr, kCallTimeout);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->speed.one_row_us, measured->speed.one_row_us);
  EXPECT_EQ(controls_[0]->loads, 1);
}

TEST_F(WorkerTest, LoadsFailClearly) {
  AddWorkers(2);
  controls_[0]->load_error = NotFound("models/model.gguf: no such file");
  EXPECT_THAT(pipeline_->Start(1), Fails(absl::StatusCode::kNotFound, "models/model.gguf"));
  controls_[0]->load_error = absl::OkStatus();
  wire::LoadRequest request = pipeline_->Request(0, 1);
  request.next_address = "";
  EXPECT_THAT(pipeline_->client(0).LoadStage(request, nullptr, kCallTimeout),
              Fails(absl::StatusCode::kInvalidArgument, "are not the last"));
  EXPECT_THAT(pipeline_->client(0).LoadStage(
                  pipeline_->Request(0, 1), [](uint64_t, uint64_t) { return false; }, kCallTimeout),
              Fails(absl::StatusCode::kCancelled, "given up"));
  connector_.Add("small", {.name = "small", .memory_budget_bytes = 621},
                 std::make_unique<FakeStageLoader>());
  EXPECT_THAT(
      connector_.Connect("small")->LoadStage(pipeline_->Request(0, 1), nullptr, kCallTimeout),
      Fails(absl::StatusCode::kResourceExhausted,
            "need 622 bytes (512 weights, 100 KV cache, 10 scratch), the memory budget is 621"));
  EXPECT_THAT(pipeline_->Start(2), IsOk());
}

}  // namespace
}  // namespace baton::worker
