#include "engine/base/steady_time.h"

#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

namespace baton {
namespace {

TEST(SteadyTime, GoesForwardFromTheDate) {
  const absl::Time before = SteadyNow();
  absl::SleepFor(absl::Milliseconds(5));
  const absl::Time after = SteadyNow();
  EXPECT_GE(after - before, absl::Milliseconds(5));
  EXPECT_LT(absl::AbsDuration(after - absl::Now()), absl::Minutes(1));  // no clock jumped here
}

TEST(SteadyTime, ADateIsAsFarAwayInSteadyTime) {
  for (const absl::Duration away : {-absl::Hours(1), absl::ZeroDuration(), absl::Hours(1)}) {
    EXPECT_LT(absl::AbsDuration(SteadyTimeOf(absl::Now() + away) - SteadyNow() - away),
              absl::Seconds(1));
    EXPECT_LT(absl::AbsDuration(DateOf(SteadyNow() + away) - absl::Now() - away), absl::Seconds(1));
  }
}

TEST(SteadyTime, ForEverStaysForEver) {
  EXPECT_EQ(SteadyTimeOf(absl::InfiniteFuture()), absl::InfiniteFuture());
  EXPECT_EQ(DateOf(absl::InfiniteFuture()), absl::InfiniteFuture());
  EXPECT_EQ(ToSteadyClock(absl::InfiniteFuture()), std::chrono::steady_clock::time_point::max());
}

TEST(SteadyTime, ConditionVariablesWaitForIt) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const absl::Time until = SteadyNow() + absl::Milliseconds(20);
  EXPECT_EQ(never.wait_until(lock, ToSteadyClock(until)), std::cv_status::timeout);
  EXPECT_GE(SteadyNow(), until);
}

}  // namespace
}  // namespace baton
