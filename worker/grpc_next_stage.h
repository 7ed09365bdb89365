// The next worker over gRPC: one long-lived stream, opened when first needed and again for a newer
// epoch after a loss.
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "proto/security.h"
#include "worker/next_stage.h"

namespace baton::worker {

NextStageFactory GrpcNextStageFactory(wire::Security security);

}  // namespace baton::worker
