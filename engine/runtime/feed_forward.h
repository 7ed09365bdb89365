// The feed-forward part of a layer: dense, or a mixture of experts. x [rows, hidden_size] -> out
// [rows, hidden_size].
#pragma once

#include "engine/runtime/layer_context.h"

namespace baton::engine {

void DenseFeedForward(const BatchContext& batch, const LayerContext& layer, Activations x,
                      Activations out);

// Each row through the experts that its router chooses, plus the shared expert where there is one.
void MixtureOfExperts(const BatchContext& batch, const LayerContext& layer, Activations x,
                      Activations out);

// The model's activation.
ActivationParams ActivationOf(const BatchContext& batch);

}  // namespace baton::engine
