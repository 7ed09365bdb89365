// Layers [begin, end) of a model in one process: the embedding too if first; final norm, output and
// sampler if last.
//
// Owner: a worker, one at a time. One compute thread calls Run; no gRPC in sight. Result bits
// depend on the model, the tokens, backend, KV type and context alone (kernels/ARITHMETIC.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"
#include "engine/arch/stage_spec.h"
#include "engine/backend/backend.h"
#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"

namespace baton::engine {

struct LoadOptions {
  std::string models_dir;  // where parts lie
  bool mlock = false;
  LoadProgress progress;
};

// What a stage takes, from its spec alone.
struct StageMemory {
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t scratch_bytes = 0;

  uint64_t total() const { return weights_bytes + kv_bytes + scratch_bytes; }
};

class Stage {
 public:
  // Nothing is opened or allocated for it. InvalidArgument where the spec makes no sense.
  static absl::StatusOr<StageMemory> MemoryOf(const StageSpec& spec);
  // Opens and maps the parts that hold the spec's tensors, checks names, types and shapes against
  // the architecture and binds them. `backend` must outlive the stage. Cancelled where
  // `options.progress` gave up.
  static absl::StatusOr<std::unique_ptr<Stage>> Load(const StageSpec& spec,
                                                     const LoadOptions& options, Backend* backend);
  ~Stage();

  bool first() const;
  bool last() const;
  const HyperParams& hyperparams() const;
  LayerRange layers() const;
  uint64_t weights_bytes() const;
  uint64_t kv_bytes() const;
  const std::vector<std::string>& warnings() const;  // mlock refused, …
  MicroBatchLimits limits() const;

  // `input` holds the previous stage's hidden states [rows, hidden_size]; nullptr at the first
  // stage. The batch has passed CheckMicroBatch and input has its size.
  absl::Status Run(const MicroBatch& batch, const HiddenStates* input, StageOutput* output);

  // Run in two steps, where a device computes the next micro-batch while hidden states leave it:
  // Start queues a micro-batch, Finish waits for the oldest that was started well. `input` may go
  // when Start has returned.
  bool overlaps() const;
  absl::Status Start(const MicroBatch& batch, const HiddenStates* input);
  absl::Status Finish(StageOutput* output);

  // Keys and values of one block, layer after layer, as the backend holds them: only a stage with
  // the same layers, KV type and kind of device understands them. `bytes` has kv_block_bytes(). Not
  // while Run runs.
  uint64_t kv_block_bytes() const;
  absl::Status ReadKvBlock(int32_t block, std::span<std::byte> bytes) const;
  absl::Status WriteKvBlock(int32_t block, std::span<const std::byte> bytes);

 private:
  struct Impl;
  explicit Stage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::engine
