#include "proto/link_speed.h"

#include <algorithm>

namespace baton::wire {
namespace {

constexpr int kSmallProbes = 8;
constexpr int kLargeProbes = 3;
constexpr size_t kLargeBytes = size_t{1} << 20;
constexpr absl::Duration kTimeout = absl::Seconds(10);

absl::StatusOr<absl::Duration> Fastest(const Prober& probe, int times, size_t bytes) {
  absl::Duration fastest = absl::InfiniteDuration();
  for (int i = 0; i < times; ++i) {
    ASSIGN_OR_RETURN(const absl::Duration taken, probe(bytes, kTimeout));
    fastest = std::min(fastest, taken);
  }
  return fastest;
}

}  // namespace

absl::StatusOr<LinkSpeed> MeasureLink(const Prober& probe) {
  RETURN_IF_ERROR(probe(kLargeBytes, kTimeout).status());  // opens windows on both sides
  ASSIGN_OR_RETURN(const absl::Duration small, Fastest(probe, kSmallProbes, 0));
  ASSIGN_OR_RETURN(const absl::Duration large, Fastest(probe, kLargeProbes, kLargeBytes));
  LinkSpeed speed{.round_trip_us = std::max(absl::ToDoubleMicroseconds(small), 1.0)};
  const double sending_s = absl::ToDoubleSeconds(large - small);
  if (sending_s > 0) speed.bytes_per_s = static_cast<double>(kLargeBytes) / sending_s;
  return speed;
}

}  // namespace baton::wire
