#include "engine/runtime/decoder_layer.h"

#include "engine/runtime/attention.h"
#include "engine/runtime/feed_forward.h"
#include "engine/runtime/norm.h"

namespace baton::engine {
namespace {

using Role = TensorRole;

bool IsParallel(const BatchContext& batch, const LayerContext& layer) {
  return batch.hyperparams.parallel_residual ||
         (batch.hyperparams.spec->residual == Residual::kParallelWithoutFfnNorm &&
          layer.weights.Find(Role::kFfnNorm) == nullptr);
}

// hidden, normalized where the model does so before its parts.
Activations NormalizeInput(const BatchContext& batch, const LayerContext& layer, Role weight,
                           Role bias, Buffer buffer, Activations hidden) {
  if (batch.hyperparams.spec->norm_place == NormPlace::kAfter) return hidden;
  const Activations normed = batch.View(buffer, batch.hyperparams.hidden_size);
  Normalize(batch, layer.weights, weight, bias, hidden, normed);
  return normed;
}

void NormalizeOutput(const BatchContext& batch, const LayerContext& layer, Role weight,
                     Activations branch) {
  if (batch.hyperparams.spec->norm_place == NormPlace::kBefore) return;
  Normalize(batch, layer.weights, weight, branch, branch);
}

// Some parallel layers give attention a norm of its own.
Activations AttentionInput(const BatchContext& batch, const LayerContext& layer, Activations hidden,
                           Activations input) {
  if (layer.weights.Find(Role::kAttnNorm2) == nullptr) return input;
  return NormalizeInput(batch, layer, Role::kAttnNorm2, Role::kAttnNorm2Bias, Buffer::kNormed2,
                        hidden);
}

// Beside attention: the layer's input again, by its own norm if there is one.
Activations ParallelInput(const BatchContext& batch, const LayerContext& layer, Activations hidden,
                          Activations input) {
  if (layer.weights.Find(Role::kFfnNorm) == nullptr) return input;
  return NormalizeInput(batch, layer, Role::kFfnNorm, Role::kFfnNormBias, Buffer::kNormed2, hidden);
}

void RunAttention(const BatchContext& batch, const LayerContext& layer, Activations x,
                  Activations out) {
  const bool latent = batch.hyperparams.spec->attention == AttentionKind::kLatent;
  (latent ? LatentAttention : StandardAttention)(batch, layer, x, out);
}

void RunFeedForward(const BatchContext& batch, const LayerContext& layer, Activations x,
                    Activations out) {
  (layer.params.mixture ? MixtureOfExperts : DenseFeedForward)(batch, layer, x, out);
}

void AddResidual(const BatchContext& batch, Activations branch, Activations hidden) {
  batch.backend.Add(hidden, branch, static_cast<float>(batch.hyperparams.residual_scale), hidden);
}

}  // namespace

void RunDecoderLayer(const BatchContext& batch, const LayerContext& layer, Activations hidden) {
  const bool parallel = IsParallel(batch, layer);
  const Activations branch = batch.View(Buffer::kBranch, batch.hyperparams.hidden_size);

  const Activations input =
      NormalizeInput(batch, layer, Role::kAttnNorm, Role::kAttnNormBias, Buffer::kNormed, hidden);
  RunAttention(batch, layer, AttentionInput(batch, layer, hidden, input), branch);
  NormalizeOutput(batch, layer, Role::kAttnPostNorm, branch);

  const Activations beside = parallel ? ParallelInput(batch, layer, hidden, input) : Activations{};
  AddResidual(batch, branch, hidden);
  const Activations x = parallel ? beside
                                 : NormalizeInput(batch, layer, Role::kFfnNorm, Role::kFfnNormBias,
                                                  Buffer::kNormed, hidden);
  RunFeedForward(batch, layer, x, branch);
  NormalizeOutput(batch, layer, Role::kFfnPostNorm, branch);
  AddResidual(batch, branch, hidden);
}

}  // namespace baton::engine
