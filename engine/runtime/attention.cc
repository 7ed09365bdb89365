#include "engine/runtime/attention.h"

#include <array>

#include "engine/runtime/norm.h"

namespace baton::engine {
namespace {

struct Qkv {
  Activations q;  // [rows, heads * key_dim]
  Activations k;  // [rows, kv_heads * key_dim]
  Activations v;  // [rows, kv_heads * value_dim]
};

Qkv ProjectQkv(const BatchContext& batch, const LayerContext& layer, Activations x) {
  const HyperParams& h = batch.hyperparams;
  const LayerHyperParams& p = layer.params;
  const WeightSet& w = layer.weights;
  const Qkv qkv = {batch.View(Buffer::kQuery, p.num_heads * h.key_dim),
                   batch.View(Buffer::kKey, p.num_kv_heads * h.key_dim),
                   batch.View(Buffer::kValue, p.num_kv_heads * h.value_dim)};
  const std::array<MatMulTarget, 3> targets = {
      {{&w.At(TensorRole::kAttnQ), w.Find(TensorRole::kAttnQBias), qkv.q},
       {&w.At(TensorRole::kAttnK), w.Find(TensorRole::kAttnKBias), qkv.k},
       {&w.At(TensorRole::kAttnV), w.Find(TensorRole::kAttnVBias), qkv.v}}};
  batch.backend.FineMatMul(x, targets);
  if (h.clamp_qkv > 0) {
    for (const Activations& a : {qkv.q, qkv.k, qkv.v})
      batch.backend.Clamp(a, static_cast<float>(h.clamp_qkv));
  }
  return qkv;
}

void NormalizeHeadsOwn(const BatchContext& batch, const Weight& weights, Activations x) {
  const HyperParams& h = batch.hyperparams;
  for (int32_t head = 0; head < x.cols / h.key_dim; ++head) {
    const Activations columns = x.Columns(head * h.key_dim, h.key_dim);
    const Weight weight = VectorOf(weights, head);
    batch.backend.Norm(h.spec->norm, static_cast<float>(h.norm_eps), columns, &weight, nullptr,
                       columns);
  }
}

void NormalizeHeads(const BatchContext& batch, const LayerContext& layer, TensorRole weight,
                    TensorRole bias, Activations x) {
  if (layer.weights.Find(weight) == nullptr) return;
  switch (batch.hyperparams.spec->qk_norm) {
    case QkNorm::kNone:
      return;
    case QkNorm::kPerHead:
      x = HeadRows(x, batch.hyperparams.key_dim);
      [[fallthrough]];
    case QkNorm::kFull:
      return Normalize(batch, layer.weights, weight, bias, x, x);
    case QkNorm::kHeadOwn:
      return NormalizeHeadsOwn(batch, layer.weights.At(weight), x);
  }
}

void RotateHeads(const BatchContext& batch, const LayerContext& layer, const Qkv& qkv) {
  if (!layer.params.rotates) return;
  const RopeTable& table = layer.params.window_rope ? batch.window_rope : batch.rope;
  batch.backend.Rope(table, batch.hyperparams.key_dim, qkv.q);
  batch.backend.Rope(table, batch.hyperparams.key_dim, qkv.k);
}

}  // namespace

void Attend(const BatchContext& batch, const LayerContext& layer, Activations q,
            Activations attended) {
  const HyperParams& h = batch.hyperparams;
  const AttentionParams params = {.num_heads = layer.params.num_heads,
                                  .scale = static_cast<float>(h.attention_scale),
                                  .softcap = static_cast<float>(h.attention_softcap),
                                  .window = layer.params.window,
                                  .sinks = layer.weights.Find(TensorRole::kAttnSinks),
                                  .alibi_slopes = batch.alibi_slopes};
  batch.backend.Attention(params, layer.cache, batch.layout, q, attended);
}

void ProjectAttended(const BatchContext& batch, const LayerContext& layer, Activations attended,
                     Activations out) {
  const MatMulTarget target = {&layer.weights.At(TensorRole::kAttnOutput),
                               layer.weights.Find(TensorRole::kAttnOutputBias), out};
  batch.backend.FineMatMul(attended, {&target, 1});
}

void StandardAttention(const BatchContext& batch, const LayerContext& layer, Activations x,
                       Activations out) {
  const Qkv qkv = ProjectQkv(batch, layer, x);
  NormalizeHeads(batch, layer, TensorRole::kAttnQNorm, TensorRole::kAttnQNormBias, qkv.q);
  NormalizeHeads(batch, layer, TensorRole::kAttnKNorm, TensorRole::kAttnKNormBias, qkv.k);
  RotateHeads(batch, layer, qkv);
  batch.backend.StoreKv(layer.cache, batch.layout, qkv.k, qkv.v);
  const Activations attended =
      batch.View(Buffer::kAttended, layer.params.num_heads * batch.hyperparams.value_dim);
  Attend(batch, layer, qkv.q, attended);
  ProjectAttended(batch, layer, attended, out);
}

}  // namespace baton::engine
