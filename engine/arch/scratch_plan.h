// How much working memory a stage needs, from a model's numbers alone: what a stage allocates and
// what a planner counts.
#pragma once

#include <array>
#include <cstdint>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"

namespace baton::engine {

// Activations by what they hold.
enum class Buffer : uint8_t {
  kHidden,       // the residual stream
  kNormed,       // a layer's normalized input
  kNormed2,      // a second one
  kBranch,       // what attention or the feed-forward network adds
  kQuery,        // [heads, key_dim]
  kKey,          // [kv_heads, key_dim]
  kValue,        // [kv_heads, value_dim]
  kAttended,     // [heads, value_dim]
  kQueryRank,    // latent attention: the compressed query
  kKvRank,       // … the compressed key-value vector and the rotated key
  kLatentQuery,  // … [heads, kv_rank + rope_dim]
  kLatentOut,    // … [heads, kv_rank]
  kGate,         // feed-forward, per row or per row and expert
  kUp,
  kRouterLogits,
  kExpertOut,     // [experts used, hidden_size]
  kOutputNormed,  // rows whose output is wanted, kOutputRows at a time
  kLogits,
};
inline constexpr int kNumBuffers = static_cast<int>(Buffer::kLogits) + 1;

// Rows of logits computed at once: enough to reuse the output matrix, few enough to be small.
inline constexpr int32_t kOutputRows = 32;

// Floats by buffer, multiples of a cache line.
using BufferFloats = std::array<uint64_t, kNumBuffers>;
// Where each buffer lies for micro-batches of up to max_rows. Those of attention, of the
// feed-forward network and of the output lie over each other: each is done with when the next
// begins.
struct ScratchPlan {
  BufferFloats sizes = {};
  BufferFloats begins = {};
  uint64_t floats = 0;  // in all
};
ScratchPlan PlanScratch(const HyperParams& hyperparams, LayerRange layers, int32_t max_rows);

}  // namespace baton::engine
