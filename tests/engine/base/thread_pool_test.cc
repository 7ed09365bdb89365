#include "engine/base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace baton::engine {
namespace {

TEST(ThreadPoolTest, RunsEachThreadOnceATask) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    std::vector<int> calls(threads);
    for (int task = 0; task < 2000; ++task) {
      pool.Run([&](int thread) { ++calls[thread]; });  // no race: Run returns when all are done
    }
    for (int count : calls) EXPECT_EQ(count, 2000);
  }
}

TEST(ThreadPoolTest, WakesParkedThreads) {
  ThreadPool pool(3);
  std::atomic<int> calls = 0;
  for (int task = 0; task < 5; ++task) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.Run([&](int) { ++calls; });
  }
  EXPECT_EQ(calls, 15);
}

TEST(ThreadPoolTest, SharesCoverEverythingOnce) {
  for (int64_t count : {0, 1, 15, 16, 17, 100, 1000}) {
    for (int parts : {1, 2, 3, 7}) {
      for (int64_t unit : {1, 16}) {
        int64_t at = 0;
        for (int p = 0; p < parts; ++p) {
          const Share share = ShareOf(count, p, parts, unit);
          EXPECT_EQ(share.begin, at);
          EXPECT_TRUE(share.begin % unit == 0 || share.begin == count);
          at = share.end;
        }
        EXPECT_EQ(at, count);
      }
    }
  }
}

TEST(ThreadPoolTest, PiecesCoverEverythingOnce) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 15, 16, 17, 100, 1000}) {
      std::vector<std::atomic<int>> visits(count);
      pool.RunShares(count, 16, [&](int thread, int64_t begin, int64_t end) {
        EXPECT_LT(thread, threads);
        EXPECT_EQ(begin % 16, 0);
        EXPECT_TRUE(end % 16 == 0 || end == count);
        for (int64_t i = begin; i < end; ++i) ++visits[i];
      });
      for (const auto& visited : visits) EXPECT_EQ(visited, 1);
    }
  }
}

TEST(ThreadPoolTest, AtLeastOneCpuIsAvailable) { EXPECT_GE(AvailableCpus(), 1); }

}  // namespace
}  // namespace baton::engine
