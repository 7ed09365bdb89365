#include "worker/stage_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/fake_stage.h"
#include "tests/support/status_matchers.h"

namespace baton::worker {
namespace {

using ::baton::testing::Fails;
using ::baton::testing::FakeBatch;
using ::baton::testing::IsOk;

QueuedStep Step(uint64_t id, uint64_t epoch, std::function<void()> taken = nullptr) {
  return {.batch = FakeBatch(id, epoch),
          .hidden = {},
          .attachment = 0,
          .queued_at = {},
          .taken = std::move(taken)};
}

TEST(StageQueue, IsFirstInFirstOut) {
  StageQueue queue(4);
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_THAT(queue.Push(Step(id, 0)), IsOk());
  for (uint64_t id = 1; id <= 3; ++id) EXPECT_EQ(queue.Pop()->batch->id, id);
  EXPECT_EQ(queue.size(), 0u);
}

TEST(StageQueue, HoldsNoMoreThanItsCapacity) {
  int taken = 0;
  StageQueue queue(2);
  for (uint64_t id = 1; id <= 2; ++id)
    ASSERT_THAT(queue.Push(Step(id, 0, [&] { ++taken; })), IsOk());
  EXPECT_THAT(queue.Push(Step(3, 0, [&] { ++taken; })),
              Fails(absl::StatusCode::kResourceExhausted, "queue is full (2 wait)"));
  EXPECT_EQ(taken, 0);
  queue.Pop();
  EXPECT_EQ(taken, 1);
  EXPECT_THAT(queue.Push(Step(4, 0)), IsOk());
}

TEST(StageQueue, TakesWhatIsThereWithoutWaiting) {
  int taken = 0;
  StageQueue queue(4);
  EXPECT_FALSE(queue.TryPop().has_value());
  ASSERT_THAT(queue.Push(Step(1, 0, [&] { ++taken; })), IsOk());
  EXPECT_EQ(queue.TryPop()->batch->id, 1u);
  EXPECT_EQ(taken, 1);
  EXPECT_FALSE(queue.TryPop().has_value());
}

TEST(StageQueue, DropsOlderEpochsAndTellsSo) {
  int taken = 0;
  StageQueue queue(8);
  for (uint64_t id = 1; id <= 4; ++id)
    ASSERT_THAT(queue.Push(Step(id, id % 2, [&] { ++taken; })), IsOk());
  queue.DropOlderThan(1);
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(queue.Pop()->batch->id, 1u);
  EXPECT_EQ(queue.Pop()->batch->id, 3u);
  EXPECT_EQ(taken, 4);
}

TEST(StageQueue, CloseWakesAndDrops) {
  int taken = 0;
  StageQueue queue(8);
  std::thread reader([&] {
    while (queue.Pop().has_value()) {
    }
  });
  queue.Close();
  reader.join();
  EXPECT_THAT(queue.Push(Step(1, 0, [&] { ++taken; })),
              Fails(absl::StatusCode::kUnavailable, "shutting down"));
  EXPECT_EQ(taken, 0);
}

TEST(StageQueue, LosesNothingBetweenThreads) {
  constexpr int kProducers = 3;
  constexpr int kSteps = 2000;
  StageQueue queue(4);
  std::atomic<int> taken = 0;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kSteps; ++i) {
        while (!queue.Push(Step(p * kSteps + i, 0, [&] { ++taken; })).ok())
          std::this_thread::yield();
      }
    });
  }
  std::vector<int> next(kProducers);
  for (int i = 0; i < kProducers * kSteps; ++i) {
    const uint64_t id = queue.Pop()->batch->id;
    EXPECT_EQ(static_cast<int>(id % kSteps), next[id / kSteps]++);  // in order of each producer
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(taken, kProducers * kSteps);
}

}  // namespace
}  // namespace baton::worker
