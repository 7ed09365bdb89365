// All stages of a model in one process, one after another: for tests, `logits` and `perplexity`. No
// queue, no threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/arch/layer_range.h"
#include "engine/backend/backend.h"
#include "engine/gguf/gguf_file.h"
#include "engine/runtime/stage.h"

namespace baton::engine {

struct LocalPipelineOptions {
  std::vector<LayerRange> stages = {};  // empty: one stage
  int32_t context_length = 0;           // 0: as the model was trained
  KvType kv_type = KvType::kF16;
  int32_t max_rows = 512;
};

// Layers dealt out as evenly as they go.
std::vector<LayerRange> EvenStages(int32_t num_layers, int32_t num_stages);

// Owner: the caller, as are the model's files and the backend, which must outlive it. One sequence,
// one thread.
class LocalPipeline {
 public:
  static absl::StatusOr<LocalPipeline> Open(const GgufModel& model,
                                            const LocalPipelineOptions& options, Backend* backend);

  // Feeds tokens after those fed before, in chunks of at most `chunk` rows (0: max_rows), and
  // returns logits [tokens.size() - first_wanted, vocab_size] of the rows from `first_wanted` on.
  absl::StatusOr<std::vector<float>> Feed(std::span<const TokenId> tokens, size_t first_wanted,
                                          int32_t chunk = 0);
  // Starts again at position 0.
  void Reset() { position_ = 0; }

  // One micro-batch through all stages, after CheckMicroBatch.
  absl::StatusOr<std::vector<RowResult>> Run(const MicroBatch& batch);

  // Block `to` holds from now on what `from` holds, on all stages.
  absl::Status CopyKvBlock(int32_t from, int32_t to);

  const HyperParams& hyperparams() const { return stages_[0]->hyperparams(); }
  int32_t position() const { return position_; }
  int32_t context_length() const { return stages_[0]->limits().context_length; }

 private:
  LocalPipeline() = default;
  MicroBatch MakeBatch(std::span<const TokenId> tokens, size_t first_wanted) const;

  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<int32_t> kv_blocks_;
  int32_t position_ = 0;
};

}  // namespace baton::engine
