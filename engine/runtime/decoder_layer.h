// One decoder layer: attention and feed-forward network, with their norms, around the residual
// stream.
#pragma once

#include "engine/runtime/layer_context.h"

namespace baton::engine {

// hidden [rows, hidden_size], in place.
void RunDecoderLayer(const BatchContext& batch, const LayerContext& layer, Activations hidden);

}  // namespace baton::engine
