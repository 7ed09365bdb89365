// Keys and values of a stage's own layers: a pool of blocks for each layer, all with the same ids.
//
// Owner: a stage. Who gets which block is decided by the coordinator; this only holds the memory.
#pragma once

#include <memory>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"
#include "engine/backend/backend.h"
#include "engine/base/status.h"

namespace baton::engine {

class KvCache {
 public:
  static uint64_t BytesOf(const HyperParams& hyperparams, LayerRange layers, int32_t num_blocks,
                          KvType type, const Backend& backend);
  static absl::StatusOr<KvCache> Create(const HyperParams& hyperparams, LayerRange layers,
                                        int32_t num_blocks, KvType type, Backend& backend);

  const KvLayer& layer(int32_t layer) const { return layers_[layer - first_layer_]; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::vector<KvLayer> layers_;
  std::vector<std::unique_ptr<DeviceBuffer>> pools_;
  int32_t first_layer_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace baton::engine
