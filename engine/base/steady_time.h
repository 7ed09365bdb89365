// Time that passes, as against the time of day: for leases, deadlines, pauses and all else that
// waits or measures.
//
// The clock of the day jumps: NTP sets it, a person does, a machine wakes from sleep. What asks
// "how long ago" reads SteadyNow, which only goes forward: CLOCK_MONOTONIC, told as an absl::Time
// that was the date when the process started, so that it may be shown, too. It stands still while
// the machine sleeps: to a coordinator that wakes nobody has been silent all night. absl::Now is
// for dates alone: what is shown, kept in files, or compared with another machine.
#pragma once

#include <absl/time/time.h>

#include <chrono>

namespace baton {

absl::Time SteadyNow();

// A date, as gRPC has a call's deadline, in steady time, and back: as today's clock has it, so at
// the moment of the call and never kept.
absl::Time SteadyTimeOf(absl::Time date);
absl::Time DateOf(absl::Time steady);

// For std::condition_variable::wait_until; std's wait_for is steady by itself. Abseil's own waits
// with a timeout go by the clock of the day and are not used.
std::chrono::steady_clock::time_point ToSteadyClock(absl::Time steady);

}  // namespace baton
