// Where a stage's hidden states go: the worker with the layers that follow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"
#include "proto/worker_client.h"

namespace baton::worker {

// Micro-batches that may be on their way to a worker or wait in its queue: what bounds its memory.
inline constexpr int kForwardWindow = 4;

// Owner: a Worker, for as long as its stage is loaded. Send is called by the compute thread, the
// rest by any.
class NextStage {
 public:
  virtual ~NextStage() = default;

  // Blocks while the window is full. Unavailable, with the address, where the worker can't be
  // reached or was lost in this epoch: a newer epoch tries again. Cancelled where the batch's epoch
  // is over or the stage is closed.
  virtual absl::Status Send(std::shared_ptr<const engine::MicroBatch> batch,
                            engine::HiddenStates hidden) = 0;
  // Batches of older epochs need not be sent any more.
  virtual void SetEpoch(uint64_t epoch) = 0;
  virtual void Close() = 0;
  // How fast the way there is; nothing known inside a process. Before the first Send.
  virtual absl::StatusOr<wire::LinkSpeed> Measure() { return wire::LinkSpeed(); }
};

struct NextStageOptions {
  std::string address;
  std::string fingerprint;
  int32_t first_layer = 0;  // of the receiver
  wire::WireType wire_type = wire::WireType::kF32;
  // A batch that was sent got lost with the connection. From a thread of the transport.
  std::function<void(wire::StepFailed)> on_lost;
};
using NextStageFactory =
    std::function<absl::StatusOr<std::unique_ptr<NextStage>>(NextStageOptions)>;

}  // namespace baton::worker
