// Sizes, durations and counts as people write them in files and flags.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace baton::engine {

// "4GiB", "512 MB", "1.5 GiB", "100" (bytes). Units: B, kB, KB, MB, GB, TB (powers of 1000), KiB,
// MiB, GiB, TiB.
absl::StatusOr<uint64_t> ParseBytes(std::string_view text);
// "250ms", "30s", "5m", "1h", "1.5s"; a unit is needed. Also "us".
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);
// "100Mbit/s", "1Gbit/s", "12.5MB/s": bytes per second.
absl::StatusOr<double> ParseBandwidth(std::string_view text);
// Decimal digits, with a sign, nothing around them.
absl::StatusOr<int64_t> ParseInteger(std::string_view text);

// "3.50 GiB", "812 KiB", for people.
std::string FormatBytes(uint64_t bytes);

// How many single-character edits make `a` into `b`: for "did you mean".
int EditDistance(std::string_view a, std::string_view b);

}  // namespace baton::engine
