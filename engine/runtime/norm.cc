#include "engine/runtime/norm.h"

namespace baton::engine {
namespace {

void NormalizeWith(const BatchContext& batch, const Weight* weight, const Weight* bias,
                   Activations x, Activations out) {
  const HyperParams& h = batch.hyperparams;
  batch.backend.Norm(h.spec->norm, static_cast<float>(h.norm_eps), x, weight, bias, out);
}

}  // namespace

void Normalize(const BatchContext& batch, const WeightSet& weights, TensorRole weight,
               TensorRole bias, Activations x, Activations out) {
  NormalizeWith(batch, weights.Find(weight), weights.Find(bias), x, out);
}

void Normalize(const BatchContext& batch, const WeightSet& weights, TensorRole weight,
               Activations x, Activations out) {
  NormalizeWith(batch, weights.Find(weight), nullptr, x, out);
}

}  // namespace baton::engine
