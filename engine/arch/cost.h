// What layers cost, from headers alone: what a planner divides.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"

namespace baton::engine {

struct LayerCost {
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes_per_position = 0;
  uint64_t read_bytes_per_token =
      0;  // of weights, in decode: of a mixture's experts only those used
  uint64_t flops_per_token =
      0;  // of matrix products: two a weight that is used; attention's grow with the context
};

// Layers one by one, and what the first and last stage have beside them.
struct ModelCost {
  std::vector<LayerCost> layers;  // [num_layers]
  LayerCost first;                // embedding (read_bytes: one row)
  LayerCost last;                 // final norm and output; a tied embedding again
  uint64_t shared_bytes = 0;      // of small tensors that every stage has (RoPE factors)
  uint64_t tied_bytes =
      0;  // of an embedding that is the output too: a stage that is first and last has it once
};
absl::StatusOr<ModelCost> CostOfModel(const GgufModel& model, const HyperParams& hyperparams,
                                      KvType kv_type);

struct StageCost {
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes_per_position = 0;
  uint64_t read_bytes_per_token = 0;
  uint64_t flops_per_token = 0;
};
StageCost CostOfStage(const ModelCost& model, LayerRange layers);

// Working memory of a stage for micro-batches of up to max_rows.
uint64_t ScratchBytes(const HyperParams& hyperparams, LayerRange layers, int32_t max_rows);

// Bytes of one position of a layer's cache.
uint64_t KvBytesPerPosition(const HyperParams& hyperparams, int32_t layer, KvType kv_type);

}  // namespace baton::engine
