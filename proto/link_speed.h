// How fast the way to a peer is, from probes of two sizes.
#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <functional>

#include "engine/base/status.h"
#include "proto/worker_client.h"

namespace baton::wire {

// Sends so many bytes and waits until a word of it is back.
using Prober = std::function<absl::StatusOr<absl::Duration>(size_t bytes, absl::Duration timeout)>;

// Some empty messages and a few large ones; takes some round trips and the time of a few MiB.
absl::StatusOr<LinkSpeed> MeasureLink(const Prober& probe);

}  // namespace baton::wire
