// A model's norm with the weights of a role.
#pragma once

#include "engine/runtime/layer_context.h"

namespace baton::engine {

// out = norm(x) * weight + bias, each where the model has it. x may be out.
void Normalize(const BatchContext& batch, const WeightSet& weights, TensorRole weight,
               TensorRole bias, Activations x, Activations out);
// The same for a norm that has no bias in any model.
void Normalize(const BatchContext& batch, const WeightSet& weights, TensorRole weight,
               Activations x, Activations out);

}  // namespace baton::engine
