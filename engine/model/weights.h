// The weights of a stage, ready for a backend: bound once from a tensor list, then found by role
// without a lookup.
//
// Owner: a stage. Immutable after Bind. On CPU a weight is the mapping's own bytes, so the mappings
// must outlive it.
#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/tensor_table.h"
#include "engine/backend/backend.h"
#include "engine/base/status.h"

namespace baton::engine {

// Weights by role; a role that the model lacks is null.
class WeightSet {
 public:
  const Weight* Find(TensorRole role) const {
    const Weight& weight = weights_[static_cast<size_t>(role)];
    return weight.data == nullptr ? nullptr : &weight;
  }
  // Of a role that the tensor table requires.
  const Weight& At(TensorRole role) const { return weights_[static_cast<size_t>(role)]; }
  void Set(TensorRole role, Weight weight) {
    weights_[static_cast<size_t>(role)] = std::move(weight);
  }

 private:
  std::array<Weight, kNumTensorRoles> weights_;
};

class Weights {
 public:
  // Where a tensor's bytes are.
  using Locate = std::function<const std::byte*(const TensorInfo& info)>;

  static absl::StatusOr<Weights> Bind(const HyperParams& hyperparams, LayerRange layers,
                                      const std::vector<FoundTensor>& tensors, const Locate& locate,
                                      Backend& backend);

  const WeightSet& model() const { return model_; }
  const WeightSet& layer(int32_t layer) const { return layers_[layer - first_layer_]; }

 private:
  WeightSet model_;
  std::vector<WeightSet> layers_;  // of the stage's range
  int32_t first_layer_ = 0;
};

// Row `index` of a vector per head or expert: [n, count] -> [n].
Weight VectorOf(const Weight& weight, int32_t index);

}  // namespace baton::engine
