#include "engine/arch/scratch_plan.h"

#include <algorithm>

#include "engine/base/saturating.h"

namespace baton::engine {
namespace {

constexpr uint64_t kAlignFloats = 64;  // of each buffer: a cache line or more on any backend

// Rows and width may both be claims.
void Grow(BufferFloats& sizes, Buffer buffer, uint64_t rows, uint64_t width) {
  uint64_t& size = sizes[static_cast<size_t>(buffer)];
  size = std::max(size, SaturatingProduct({rows, width}));
}

void GrowForAttention(const HyperParams& h, const LayerHyperParams& layer, uint64_t rows,
                      BufferFloats& sizes) {
  const uint64_t heads = layer.num_heads;
  const uint64_t kv_heads =
      h.spec->attention == AttentionKind::kLatent ? heads : layer.num_kv_heads;
  Grow(sizes, Buffer::kQuery, rows, heads * h.key_dim);
  Grow(sizes, Buffer::kKey, rows, kv_heads * h.key_dim);
  Grow(sizes, Buffer::kValue, rows, kv_heads * h.value_dim);
  Grow(sizes, Buffer::kAttended, rows, heads * h.value_dim);
  if (h.spec->attention != AttentionKind::kLatent) return;
  const LatentHyperParams& latent = h.latent;
  const uint64_t expanded = heads * (latent.nope_dim + latent.value_dim);
  Grow(sizes, Buffer::kQueryRank, rows, latent.query_rank);
  Grow(sizes, Buffer::kKvRank, rows, latent.kv_rank + latent.rope_dim);
  Grow(sizes, Buffer::kLatentQuery, rows, heads * (latent.kv_rank + latent.rope_dim));
  Grow(sizes, Buffer::kLatentOut, rows, latent.absorbed ? heads * latent.kv_rank : expanded);
}

void GrowForFeedForward(const HyperParams& h, const LayerHyperParams& layer, uint64_t rows,
                        BufferFloats& sizes) {
  if (!layer.mixture) {
    Grow(sizes, Buffer::kGate, rows, layer.ffn_size);
    Grow(sizes, Buffer::kUp, rows, layer.ffn_size);
    return;
  }
  const ExpertHyperParams& experts = h.experts;
  const uint64_t width = std::max(static_cast<uint64_t>(experts.used) * experts.ffn_size,
                                  static_cast<uint64_t>(experts.shared_ffn_size));
  Grow(sizes, Buffer::kGate, rows, width);
  Grow(sizes, Buffer::kUp, rows, width);
  Grow(sizes, Buffer::kRouterLogits, rows, experts.count);
  Grow(sizes, Buffer::kExpertOut, rows, static_cast<uint64_t>(experts.used) * h.hidden_size);
}

// Buffers that are in use together, from the first to the last; those before them always are.
struct Phase {
  Buffer first, last;
};
constexpr Phase kPhases[] = {{Buffer::kQuery, Buffer::kLatentOut},
                             {Buffer::kGate, Buffer::kExpertOut},
                             {Buffer::kOutputNormed, Buffer::kLogits}};

// Lays buffers [first, last] end to end from `at` on; returns where they end.
uint64_t Place(size_t first, size_t last, uint64_t at, ScratchPlan& plan) {
  for (size_t i = first; i <= last; ++i) {
    plan.begins[i] = at;
    at = SaturatingSum({at, plan.sizes[i]});
  }
  return at;
}

void PlaceBuffers(ScratchPlan& plan) {
  const uint64_t shared = Place(0, static_cast<size_t>(kPhases[0].first) - 1, 0, plan);
  plan.floats = shared;
  for (const Phase& phase : kPhases) {
    const uint64_t end =
        Place(static_cast<size_t>(phase.first), static_cast<size_t>(phase.last), shared, plan);
    plan.floats = std::max(plan.floats, end);
  }
}

}  // namespace

ScratchPlan PlanScratch(const HyperParams& h, LayerRange layers, int32_t max_rows) {
  const uint64_t rows = max_rows;
  ScratchPlan plan;
  BufferFloats& sizes = plan.sizes;
  for (const Buffer buffer :
       {Buffer::kHidden, Buffer::kNormed, Buffer::kNormed2, Buffer::kBranch}) {
    Grow(sizes, buffer, rows, h.hidden_size);
  }
  for (int32_t i = layers.begin; i < layers.end; ++i) {
    GrowForAttention(h, h.layers[i], rows, sizes);
    GrowForFeedForward(h, h.layers[i], rows, sizes);
  }
  if (layers.end == h.num_layers) {
    Grow(sizes, Buffer::kOutputNormed, kOutputRows, h.hidden_size);
    Grow(sizes, Buffer::kLogits, kOutputRows, h.vocab_size);
  }
  for (uint64_t& size : sizes)
    size = SaturatingSum({size, kAlignFloats - 1}) / kAlignFloats * kAlignFloats;
  PlaceBuffers(plan);
  return plan;
}

}  // namespace baton::engine
