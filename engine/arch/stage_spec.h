// What a worker needs to know to load its layers: made from headers by the coordinator, carried by
// the wire. A value.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"
#include "engine/arch/tensor_table.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/tensor/operation_params.h"

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
  std::string
      model_header;  // a GGUF header without tensors: the metadata without tokenizer.* and split.*
  std::string fingerprint;  // of the model, see engine/arch/fingerprint.h
  LayerRange layers;
  std::vector<PartFile> parts;  // of the whole model; only those that tensors name are opened
  std::vector<TensorPlacement> tensors;
  int32_t context_length = 0;  // positions a sequence may have
  int32_t num_kv_blocks = 0;
  int32_t max_rows = 0;  // of a micro-batch
  KvType kv_type = KvType::kF16;
  // How many of the first layers stay on the host where the worker computes on a device of its own;
  // kAsFewAsFit: those for which the device has no room.
  int32_t host_layers = 0;
  static constexpr int32_t kAsFewAsFit = -1;
};

// How far a load has come, in bytes of weights, and of how many. May be empty; false: give up.
using LoadProgress = std::function<bool(uint64_t done_bytes, uint64_t total_bytes)>;

// The spec of one stage of an open model, from headers alone.
absl::StatusOr<StageSpec> MakeStageSpec(const GgufModel& model, const HyperParams& hyperparams,
                                        LayerRange layers, int32_t context_length,
                                        int32_t num_kv_blocks, int32_t max_rows, KvType kv_type);

// What a spec says of itself.
absl::StatusOr<HyperParams> HyperParamsOf(const StageSpec& spec);
// Its tensors as a reader would have found them; names are views into the spec.
std::vector<TensorInfo> TensorInfosOf(const StageSpec& spec);
// … each in its role; views into `infos`, which are those of the spec.
absl::StatusOr<std::vector<FoundTensor>> FindSpecTensors(const HyperParams& hyperparams,
                                                         LayerRange layers,
                                                         std::span<const TensorInfo> infos);
// Of the tensors; saturating.
uint64_t WeightsBytes(const StageSpec& spec);
// The part of a stage that has only these of its layers.
absl::StatusOr<StageSpec> NarrowSpec(const StageSpec& spec, LayerRange layers);

}  // namespace baton::engine
