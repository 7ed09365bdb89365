// A loaded stage as a worker sees it, and what loads one: the seam between the process and the
// engine, so that queueing, epochs and transport are tested without a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/arch/layer_range.h"
#include "engine/arch/stage_spec.h"
#include "engine/backend/backend.h"
#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"
#include "engine/runtime/stage.h"

namespace baton::worker {

// Owner: a Worker. Run is called by its compute thread alone; the rest doesn't change and may be
// read by any thread.
class StageRunner {
 public:
  virtual ~StageRunner() = default;

  virtual bool first() const = 0;
  virtual bool last() const = 0;
  virtual int32_t hidden_size() const = 0;
  virtual engine::MicroBatchLimits limits() const = 0;
  virtual uint64_t weights_bytes() const = 0;
  virtual uint64_t kv_bytes() const = 0;
  virtual std::vector<std::string> warnings() const = 0;
  // Where its weights are, for people: "mapped", "mapped and locked", "on cuda:0".
  virtual std::string storage() const { return "in memory"; }
  // Of the first layers, those that a device left to the host.
  virtual int32_t num_host_layers() const { return 0; }

  // As engine::Stage::Run.
  virtual absl::Status Run(const engine::MicroBatch& batch, const engine::HiddenStates* input,
                           engine::StageOutput* output) = 0;
  // As the engine's stage has them: one step may be started before the one before it is finished.
  virtual bool overlaps() const { return false; }
  virtual absl::Status Start(const engine::MicroBatch& /*batch*/,
                             const engine::HiddenStates* /*input*/) {
    return Unimplemented("this stage does not overlap");
  }
  virtual absl::Status Finish(engine::StageOutput* /*output*/) {
    return Unimplemented("this stage does not overlap");
  }
  // As the engine's stage has them; on the compute thread's time.
  virtual uint64_t kv_block_bytes() const { return 0; }
  virtual absl::Status ReadKvBlock(int32_t /*block*/, std::span<std::byte> /*bytes*/) const {
    return Unimplemented("this stage keeps no KV blocks");
  }
  virtual absl::Status WriteKvBlock(int32_t /*block*/, std::span<const std::byte> /*bytes*/) {
    return Unimplemented("this stage keeps no KV blocks");
  }
  // Whether the files behind the weights are still those that were loaded; DataLoss names the one
  // that isn't.
  virtual absl::Status CheckFiles() = 0;
};

using engine::LoadProgress;

// Owner: a Worker, which calls Load from one thread at a time.
class StageLoader {
 public:
  virtual ~StageLoader() = default;

  virtual std::string device() const = 0;   // "cpu", "cuda:0"
  virtual std::string backend() const = 0;  // for people
  virtual int threads() const = 0;
  virtual uint64_t weight_bytes_received()
      const = 0;  // over the network, since the process started
  // None where stages are in the host's memory.
  virtual std::optional<engine::DeviceMemory> device_memory() const { return std::nullopt; }
  // GGUF files that stages can be loaded from; empty: not known.
  virtual std::vector<engine::PartFile> files() const { return {}; }

  // What loading this would take.
  virtual absl::StatusOr<engine::StageMemory> MemoryOf(const engine::StageSpec& spec) const = 0;
  virtual absl::StatusOr<std::unique_ptr<StageRunner>> Load(
      const engine::StageSpec& spec, const std::vector<std::string>& part_sources,
      const LoadProgress& progress) = 0;
};

}  // namespace baton::worker
