// Layers [begin, end) of a model in one process: the embedding too if first; final norm, output and sampler if last.
//
// Owner: a worker, one at a time. One compute thread calls Run; no gRPC in sight. Result bits depend on the model, the
// tokens, backend, KV type and context alone (kernels/ARITHMETIC.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"
#include "engine/backend/backend.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/runtime/micro_batch.h"

namespace baton::engine {

// A tensor that a stage needs, with all that is needed to find it without reading a header.
struct TensorPlacement {
  std::string name;
  kernels::QuantType type = kernels::QuantType::kF32;
  std::vector<int64_t> ne;
  uint32_t part = 0;  // index into StageSpec::parts
  uint64_t file_offset = 0;
  uint64_t bytes = 0;
};

struct PartFile {
  std::string file_name;  // last component of the path; looked up in the worker's models folder
  uint64_t bytes = 0;
};

// What a worker is told to load. Made by MakeStageSpec (coordinator) and carried by the wire.
struct StageSpec {
  std::string model_header;  // a GGUF header without tensors: the metadata without tokenizer.* and split.*
  std::string fingerprint;   // of the model, see engine/arch/fingerprint.h
  LayerRange layers;
  std::vector<PartFile> parts;  // of the whole model; only those that tensors name are opened
  std::vector<TensorPlacement> tensors;
  int32_t context_length = 0;  // positions a sequence may have
  int32_t num_kv_blocks = 0;
  int32_t max_rows = 0;  // of a micro-batch
  KvType kv_type = KvType::kF16;
};

// The spec of one stage of an open model, from headers alone.
absl::StatusOr<StageSpec> MakeStageSpec(const GgufModel& model, const HyperParams& hyperparams, LayerRange layers,
                                        int32_t context_length, int32_t num_kv_blocks, int32_t max_rows, KvType kv_type);

struct LoadOptions {
  std::string models_dir;  // where parts lie
  bool mlock = false;
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;  // may be empty
};

class Stage {
 public:
  // Opens and maps the parts that hold the spec's tensors, checks names, types and shapes against the architecture and
  // binds them. `backend` must outlive the stage.
  static absl::StatusOr<std::unique_ptr<Stage>> Load(const StageSpec& spec, const LoadOptions& options, Backend* backend);
  ~Stage();

  bool first() const;
  bool last() const;
  const HyperParams& hyperparams() const;
  LayerRange layers() const;
  uint64_t weights_bytes() const;
  uint64_t kv_bytes() const;
  const std::vector<std::string>& warnings() const;  // mlock refused, …
  MicroBatchLimits limits() const;

  // `input` holds the previous stage's hidden states [rows, hidden_size]; nullptr at the first stage. The batch has passed
  // CheckMicroBatch and input has its size.
  absl::Status Run(const MicroBatch& batch, const HiddenStates* input, StageOutput* output);

 private:
  struct Impl;
  explicit Stage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace baton::engine
