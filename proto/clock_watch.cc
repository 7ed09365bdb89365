#include "proto/clock_watch.h"

#include <absl/time/clock.h>
#include <spdlog/spdlog.h>

#include "engine/base/steady_time.h"

// Of gRPC's core, which has no public way; where a version lacks it nothing is woken.
[[gnu::weak]] void grpc_kick_poller();

namespace baton::wire {
namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr absl::Duration kJump = absl::Milliseconds(500);  // NTP's slewing stays far below

// What the date is ahead of steady time; not as of two moments between which others ran.
absl::Duration Ahead() {
  while (true) {
    const absl::Time before = SteadyNow();
    const absl::Duration ahead = absl::Now() - before;
    if (SteadyNow() - before < kJump / 10) return ahead;
  }
}

}  // namespace

ClockWatch::ClockWatch() : thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void ClockWatch::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  absl::Duration ahead = Ahead();
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, kLookEvery, [] { return false; });
    const absl::Duration jump = Ahead() - ahead;
    if (absl::AbsDuration(jump) < kJump) continue;
    ahead += jump;
    spdlog::warn("the clock of the day was set {} by {}; nothing here depends on it",
                 jump > absl::ZeroDuration() ? "forward" : "back",
                 absl::FormatDuration(absl::Trunc(absl::AbsDuration(jump), absl::Seconds(1))));
    if (grpc_kick_poller != nullptr) grpc_kick_poller();
  }
}

}  // namespace baton::wire
