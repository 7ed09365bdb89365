// Measures how fast a loaded stage is, so that a planner need not guess.
#pragma once

#include "engine/base/status.h"
#include "proto/worker_client.h"
#include "worker/stage_runner.h"

namespace baton::worker {

// Runs steps as decode and prefill have them, for about a second in all, on KV blocks from the
// pool's beginning: before the stage has any work, because what they held is lost. No other thread
// may use the runner meanwhile.
absl::StatusOr<wire::StageSpeed> MeasureStageSpeed(StageRunner* runner);

}  // namespace baton::worker
