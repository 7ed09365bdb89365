// How a stage's layers encode positions: made once at load from hyperparameters, context and factor
// tensors.
#pragma once

#include <span>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/tensor/operation_params.h"

namespace baton::engine {

// Factor tensors of a model, empty where it has none.
struct RopeFactors {
  std::vector<float> all;     // rope_freqs.weight: for any context
  std::vector<float> longer;  // for contexts beyond the original
  std::vector<float> shorter;
};

struct PositionTables {
  RopeParams rope;
  RopeParams window_rope;
  RopeParams latent_key_rope;
  std::vector<float> alibi_slopes;  // [num_heads] or none
};

PositionTables MakePositionTables(const HyperParams& hyperparams, const RopeFactors& factors,
                                  int32_t context_length);

}  // namespace baton::engine
