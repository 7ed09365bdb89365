// Measures how fast a loaded stage is, so that a planner need not guess.
#pragma once

#include "engine/base/status.h"
#include "proto/worker_client.h"
#include "worker/stage_runner.h"

namespace baton::worker {

// Both run steps on KV blocks from the pool's beginning: before the stage has any work, because
// what they held is lost. No other thread may use the runner meanwhile.

// Steps as decode and prefill have them, for about a second in all, each kind for a fixed time:
// what several workers measure from the same moment on, they measure beside each other.
absl::StatusOr<wire::StageSpeed> MeasureStageSpeed(StageRunner* runner);
// Microseconds of a decode step of one row.
absl::StatusOr<double> MeasureDecodeStep(StageRunner* runner);

}  // namespace baton::worker
