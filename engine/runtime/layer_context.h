// What the steps of a decoder layer work with. Views; alive for one Stage::Run.
#pragma once

#include <cstdint>

#include "engine/arch/hyperparams.h"
#include "engine/backend/backend.h"
#include "engine/model/weights.h"
#include "engine/runtime/scratch.h"

namespace baton::engine {

// Of the micro-batch: the same for all layers.
struct BatchContext {
  Backend& backend;
  const HyperParams& hyperparams;
  const Scratch& scratch;
  const BatchLayout& layout;
  int32_t rows = 0;
  RopeTable rope;                       // of queries, and of keys in standard attention
  RopeTable window_rope;                // the same for layers with a window, where it differs
  RopeTable latent_key_rope;            // of the key part that latent attention rotates
  const float* alibi_slopes = nullptr;  // [num_heads] or none

  // [rows, cols], packed
  Activations View(Buffer buffer, int32_t cols) const { return scratch.View(buffer, rows, cols); }
};

struct LayerContext {
  const LayerHyperParams& params;
  const WeightSet& weights;
  const KvLayer& cache;
};

// x [rows, width] seen as a row per head: [rows * width / head_dim, head_dim]. x is packed.
inline Activations HeadRows(Activations x, int32_t head_dim) {
  return {x.data, x.rows * (x.cols / head_dim), head_dim, head_dim};
}

}  // namespace baton::engine
