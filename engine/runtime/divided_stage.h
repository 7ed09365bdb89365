// A stage whose first layers are on the host and whose others are on a device that has no room for
// all of them; one undivided stage where it has.
//
// The device gets the end: the output matrix is the largest product of a decode step, while rows of
// the embedding are merely looked up. Owner and threads as of Stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/stage.h"

namespace baton::engine {

class DividedStage {
 public:
  // Divides by spec.host_layers. Both backends must outlive the stage; `host` may be null where
  // nothing stays there.
  static absl::StatusOr<std::unique_ptr<DividedStage>> Load(const StageSpec& spec,
                                                            const LoadOptions& options,
                                                            Backend* device, Backend* host);

  bool first() const { return parts_.front()->first(); }
  bool last() const { return parts_.back()->last(); }
  const HyperParams& hyperparams() const { return parts_.front()->hyperparams(); }
  // How many of the first layers are on the host.
  int32_t num_host_layers() const { return num_host_layers_; }
  uint64_t weights_bytes() const;
  uint64_t kv_bytes() const;
  std::vector<std::string> warnings() const;
  MicroBatchLimits limits() const { return parts_.front()->limits(); }

  absl::Status Run(const MicroBatch& batch, const HiddenStates* input, StageOutput* output);
  // As of Stage; a divided one computes on the host first and does not overlap.
  bool overlaps() const { return parts_.size() == 1 && parts_[0]->overlaps(); }
  absl::Status Start(const MicroBatch& batch, const HiddenStates* input) {
    return parts_[0]->Start(batch, input);
  }
  absl::Status Finish(StageOutput* output) { return parts_[0]->Finish(output); }

  // As of Stage; where it is divided, only one divided alike understands the bytes.
  uint64_t kv_block_bytes() const;
  absl::Status ReadKvBlock(int32_t block, std::span<std::byte> bytes) const;
  absl::Status WriteKvBlock(int32_t block, std::span<const std::byte> bytes);

 private:
  DividedStage() = default;

  std::vector<std::unique_ptr<Stage>> parts_;  // one or two, in order of layers
  int32_t num_host_layers_ = 0;
  StageOutput between_;
};

}  // namespace baton::engine
