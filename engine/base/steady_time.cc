#include "engine/base/steady_time.h"

#include <absl/time/clock.h>

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

// The date of the steady clock's zero, as seen when the process asks first.
absl::Time Zero() {
  static const absl::Time zero = absl::Now() - absl::FromChrono(Clock::now().time_since_epoch());
  return zero;
}

}  // namespace

absl::Time SteadyNow() { return Zero() + absl::FromChrono(Clock::now().time_since_epoch()); }

absl::Time SteadyTimeOf(absl::Time date) { return SteadyNow() + (date - absl::Now()); }

absl::Time DateOf(absl::Time steady) { return absl::Now() + (steady - SteadyNow()); }

Clock::time_point ToSteadyClock(absl::Time steady) {
  return Clock::time_point(absl::ToChronoNanoseconds(steady - Zero()));
}

}  // namespace baton
