#include <array>

#include "engine/runtime/attention.h"
#include "engine/runtime/norm.h"

namespace baton::engine {
namespace {

// The latent vector of each position, normalized, and the rotated part of its key.
struct Latent {
  Activations all;       // [rows, kv_rank + rope_dim]
  Activations vector;    // its first kv_rank columns
  Activations rope_key;  // the others
};

void MatMulOne(const BatchContext& batch, const LayerContext& layer, TensorRole weight,
               Activations x, Activations out) {
  const MatMulTarget target = {&layer.weights.At(weight), nullptr, out};
  batch.backend.FineMatMul(x, {&target, 1});
}

// [rows, heads * key_dim]: of each head nope_dim plain numbers, then rope_dim rotated ones.
Activations ProjectQuery(const BatchContext& batch, const LayerContext& layer, Activations x) {
  const HyperParams& h = batch.hyperparams;
  const Activations q = batch.View(Buffer::kQuery, layer.params.num_heads * h.key_dim);
  if (h.latent.query_rank > 0) {
    const Activations compressed = batch.View(Buffer::kQueryRank, h.latent.query_rank);
    MatMulOne(batch, layer, TensorRole::kAttnQA, x, compressed);
    Normalize(batch, layer.weights, TensorRole::kAttnQANorm, compressed, compressed);
    MatMulOne(batch, layer, TensorRole::kAttnQB, compressed, q);
  } else {
    MatMulOne(batch, layer, TensorRole::kAttnQ, x, q);
  }
  batch.backend.Rope(batch.rope, h.key_dim, q);
  return q;
}

Latent ProjectLatent(const BatchContext& batch, const LayerContext& layer, Activations x) {
  const LatentHyperParams& l = batch.hyperparams.latent;
  const Activations all = batch.View(Buffer::kKvRank, l.kv_rank + l.rope_dim);
  const Latent latent = {all, all.Columns(0, l.kv_rank), all.Columns(l.kv_rank, l.rope_dim)};
  MatMulOne(batch, layer, TensorRole::kAttnKvA, x, all);
  Normalize(batch, layer.weights, TensorRole::kAttnKvANorm, latent.vector, latent.vector);
  batch.backend.Rope(batch.latent_key_rope, l.rope_dim, latent.rope_key);
  return latent;
}

// Scores are taken in the latent space: attn_k_b moves into the query, attn_v_b behind the sum. The
// cache holds one vector a position, whatever the number of heads.
void AttendAbsorbed(const BatchContext& batch, const LayerContext& layer, Activations q,
                    const Latent& latent, Activations attended) {
  const LatentHyperParams& l = batch.hyperparams.latent;
  const int32_t heads = layer.params.num_heads;
  const int32_t width = l.kv_rank + l.rope_dim;
  const Activations query = batch.View(Buffer::kLatentQuery, heads * width);
  const Activations q_heads = HeadRows(q, batch.hyperparams.key_dim);
  const Activations query_heads = HeadRows(query, width);
  batch.backend.HeadMatMul(q_heads.Columns(0, l.nope_dim), layer.weights.At(TensorRole::kAttnKB),
                           query_heads.Columns(0, l.kv_rank));
  batch.backend.Copy(q_heads.Columns(l.nope_dim, l.rope_dim),
                     query_heads.Columns(l.kv_rank, l.rope_dim));

  batch.backend.StoreKv(layer.cache, batch.layout, latent.all, {});
  const Activations sums = batch.View(Buffer::kLatentOut, heads * l.kv_rank);
  Attend(batch, layer, query, sums);
  batch.backend.HeadMatMul(HeadRows(sums, l.kv_rank), layer.weights.At(TensorRole::kAttnVB),
                           HeadRows(attended, l.value_dim));
}

// Files from before the split: attn_kv_b makes keys and values of every head, which the cache then
// holds.
void AttendExpanded(const BatchContext& batch, const LayerContext& layer, Activations q,
                    const Latent& latent, Activations attended) {
  const HyperParams& h = batch.hyperparams;
  const LatentHyperParams& l = h.latent;
  const int32_t heads = layer.params.num_heads;
  const Activations expanded = batch.View(Buffer::kLatentOut, heads * (l.nope_dim + l.value_dim));
  MatMulOne(batch, layer, TensorRole::kAttnKvB, latent.vector, expanded);

  const Activations k = batch.View(Buffer::kKey, heads * h.key_dim);
  const Activations v = batch.View(Buffer::kValue, heads * l.value_dim);
  const Activations expanded_heads = HeadRows(expanded, l.nope_dim + l.value_dim);
  batch.backend.Copy(expanded_heads.Columns(0, l.nope_dim),
                     HeadRows(k, h.key_dim).Columns(0, l.nope_dim));
  batch.backend.Copy(expanded_heads.Columns(l.nope_dim, l.value_dim), HeadRows(v, l.value_dim));
  for (int32_t head = 0; head < heads; ++head) {
    batch.backend.Copy(latent.rope_key, k.Columns(head * h.key_dim + l.nope_dim, l.rope_dim));
  }
  batch.backend.StoreKv(layer.cache, batch.layout, k, v);
  Attend(batch, layer, q, attended);
}

}  // namespace

void LatentAttention(const BatchContext& batch, const LayerContext& layer, Activations x,
                     Activations out) {
  const HyperParams& h = batch.hyperparams;
  const Activations q = ProjectQuery(batch, layer, x);
  const Latent latent = ProjectLatent(batch, layer, x);
  const Activations attended = batch.View(Buffer::kAttended, layer.params.num_heads * h.value_dim);
  const auto attend = h.latent.absorbed ? AttendAbsorbed : AttendExpanded;
  attend(batch, layer, q, latent, attended);
  ProjectAttended(batch, layer, attended, out);
}

}  // namespace baton::engine
