// Attention of one layer over the KV cache. Both kinds: x [rows, hidden_size] -> out [rows,
// hidden_size].
#pragma once

#include "engine/runtime/layer_context.h"

namespace baton::engine {

// Keys and values per head, shared by groups of query heads (GQA, Ainslie et al. 2023).
void StandardAttention(const BatchContext& batch, const LayerContext& layer, Activations x,
                       Activations out);

// Keys and values from one latent vector a position (MLA, DeepSeek-V2,
// https://arxiv.org/abs/2405.04434).
void LatentAttention(const BatchContext& batch, const LayerContext& layer, Activations x,
                     Activations out);

// Scores, softmax, mask: shared by both. q [rows, heads * key_dim of the cache].
void Attend(const BatchContext& batch, const LayerContext& layer, Activations q,
            Activations attended);
// out = attended * attn_output^T.
void ProjectAttended(const BatchContext& batch, const LayerContext& layer, Activations attended,
                     Activations out);

}  // namespace baton::engine
