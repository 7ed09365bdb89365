// Why it is slow: the right stage or link is named for slow-downs of every kind and place, from
// what the pipeline's own log makes of micro-batches.
#include "coordinator/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "coordinator/step_log.h"

namespace baton::coordinator {
namespace {

using ::testing::HasSubstr;
using Kind = Bottleneck::Kind;

// What each stage really takes, milliseconds.
struct Stage {
  double link_ms = 0.1;
  double queue_ms = 0;
  double compute_ms = 2;
  double round_trip_ms = 0.2;
};

engine::MicroBatch Batch(uint64_t id, uint64_t sequence) {
  engine::MicroBatch batch;
  batch.id = id;
  batch.tokens = {1};
  batch.sequences.push_back(
      {.sequence_id = sequence, .first_position = 0, .num_rows = 1, .kv_blocks = {}});
  return batch;
}

// Runs micro-batches through a log as the pipeline would see them: words of workers arrive half a
// round trip after the fact.
void Play(const std::vector<Stage>& stages, int count, StepLog* log) {
  absl::Time now = absl::UnixEpoch();
  for (int id = 1; id <= count; ++id) {
    log->Sent(Batch(static_cast<uint64_t>(id), 7), stages.size(), now);
    std::vector<std::pair<absl::Time, size_t>> words;
    for (size_t i = 0; i < stages.size(); ++i) {
      const Stage& stage = stages[i];
      now += absl::Milliseconds(stage.link_ms + stage.queue_ms + stage.compute_ms);
      words.emplace_back(now + absl::Milliseconds(stage.round_trip_ms / 2), i);
    }
    std::ranges::sort(words);
    for (const auto& [arrival, i] : words) {
      log->StageDone(static_cast<uint64_t>(id), i,
                     {.queue_us = static_cast<uint64_t>(stages[i].queue_ms * 1000),
                      .compute_us = static_cast<uint64_t>(stages[i].compute_ms * 1000),
                      .send_us = 0},
                     arrival);
    }
    log->Returned(static_cast<uint64_t>(id), now);
  }
}

ClusterStatus StatusOf(const std::vector<Stage>& stages) {
  StepLog log;
  Play(stages, 30, &log);
  double total_ms = 0;
  for (const Stage& stage : stages) total_ms += stage.link_ms + stage.queue_ms + stage.compute_ms;
  ClusterStatus status;
  status.state.state = ClusterState::kReady;
  status.pipeline.scheduler.running = 1;
  status.pipeline.scheduler.kv_blocks_total = 100;
  for (size_t i = 0; i < stages.size(); ++i) {
    WorkerSnapshot& worker = status.workers.emplace_back();
    worker.name = "w" + std::to_string(i);
    worker.round_trip = absl::Milliseconds(stages[i].round_trip_ms);
    const int32_t begin = static_cast<int32_t>(i) * 4;
    status.state.placement.push_back({i, {begin, begin + 4}});
    StageStats& stats = status.pipeline.stages.emplace_back();
    stats.step_ms = stages[i].compute_ms;
    stats.link_ms = log.hops()[i].link_ms;
    stats.busy_share = stages[i].compute_ms / total_ms;
  }
  CorrectLinkTimes(&status);
  return status;
}

struct SlowDown {
  const char* name;
  std::vector<Stage> stages;
  Kind kind;
  const char* worker;
};

const SlowDown kSlowDowns[] = {
    {"FirstStage", {{.compute_ms = 9}, {}, {}}, Kind::kStage, "w0"},
    {"MiddleStage", {{}, {.compute_ms = 9}, {}}, Kind::kStage, "w1"},
    {"LastStage", {{}, {}, {.compute_ms = 9}}, Kind::kStage, "w2"},
    {"SlightlySlowStage", {{}, {.compute_ms = 3.5}, {}}, Kind::kStage, "w1"},
    {"LinkFromTheCoordinator", {{.link_ms = 8}, {}, {}}, Kind::kLink, "w0"},
    {"LinkBetweenWorkers", {{}, {.link_ms = 8}, {}}, Kind::kLink, "w1"},
    {"LastLink", {{}, {}, {.link_ms = 8}}, Kind::kLink, "w2"},
    // All of a host's links are slow: also its words to the coordinator.
    {"FarHost", {{}, {.link_ms = 20, .round_trip_ms = 40}, {.link_ms = 19}}, Kind::kLink, "w1"},
    // Its words arrive after those of the stage behind it.
    {"FarFromTheOneBeforeAndTheCoordinator",
     {{}, {.link_ms = 20, .round_trip_ms = 40}, {}},
     Kind::kLink,
     "w1"},
    {"FarCoordinator",
     {{.link_ms = 20, .round_trip_ms = 40}, {.round_trip_ms = 40}, {.round_trip_ms = 40}},
     Kind::kLink,
     "w0"},
    {"SlowStageBehindAQueue", {{}, {.queue_ms = 12, .compute_ms = 9}, {}}, Kind::kStage, "w1"},
    {"NothingIsSlow", {{}, {}, {}}, Kind::kBalanced, ""},
    {"OneStage", {{.compute_ms = 9}}, Kind::kBalanced, ""},
};

class BottleneckTest : public ::testing::TestWithParam<SlowDown> {};

TEST_P(BottleneckTest, NamesWhatIsSlow) {
  const Bottleneck found = FindBottleneck(StatusOf(GetParam().stages));
  EXPECT_EQ(found.kind, GetParam().kind) << found.text;
  EXPECT_EQ(found.worker, GetParam().worker) << found.text;
  EXPECT_THAT(found.text, HasSubstr(GetParam().worker));
}

INSTANTIATE_TEST_SUITE_P(All, BottleneckTest, ::testing::ValuesIn(kSlowDowns),
                         [](const auto& test) { return test.param.name; });

TEST(Bottleneck, SaysWhenThereIsNothingToMeasure) {
  ClusterStatus status = StatusOf({{}, {}});
  status.pipeline.scheduler.running = 0;
  EXPECT_EQ(FindBottleneck(status).kind, Kind::kIdle);
  status.state.state = ClusterState::kRecovering;
  status.state.reason = "worker w1 is lost";
  EXPECT_THAT(FindBottleneck(status).text, HasSubstr("worker w1 is lost"));
  status = StatusOf({{}, {}});
  status.pipeline.scheduler.waiting = 3;
  status.pipeline.scheduler.kv_blocks_used = 95;
  EXPECT_EQ(FindBottleneck(status).kind, Kind::kMemory);
}

TEST(StepLog, TracesARequestAcrossProcesses) {
  StepLog log;
  log.Opened({.id = "c-1", .client_id = "mine", .sequence = 7, .opened = absl::UnixEpoch()});
  log.Opened({.id = "c-2", .client_id = "", .sequence = 8, .opened = absl::UnixEpoch()});
  Play({{}, {.queue_ms = 1}}, 3, &log);
  EXPECT_EQ(log.Find("")->id, "c-2");
  EXPECT_EQ(log.Find("chatcmpl-mine")->id, "c-1");
  EXPECT_FALSE(log.Find("other"));
  EXPECT_TRUE(log.RecordsOf(8).empty());

  const auto records = log.RecordsOf(7);
  ASSERT_EQ(records.size(), 3u);
  const auto trace = nlohmann::json::parse(TraceToJson(*log.Find("c-1"), records, {"a", "b"}));
  int computes = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"].get<int64_t>(), 0) << event;
    computes += event["name"] == "compute";
  }
  EXPECT_EQ(computes, 6);
  EXPECT_EQ(trace["otherData"]["client_id"], "mine");
}

}  // namespace
}  // namespace baton::coordinator
