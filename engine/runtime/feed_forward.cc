#include "engine/runtime/feed_forward.h"

namespace baton::engine {
namespace {

MatMulTarget Target(const WeightSet& w, TensorRole weight, TensorRole bias, Activations out) {
  return {&w.At(weight), w.Find(bias), out};
}

// Activations have outliers here. Where 256 of them share a scale, those would drown the others.
void ProjectDown(const BatchContext& batch, Activations up, const MatMulTarget& down) {
  const auto format = kernels::TraitsOf(down.weight->type).activation;
  if (format == kernels::ActivationFormat::kInt8By256) {
    batch.backend.FineMatMul(up, {&down, 1});
  } else {
    batch.backend.MatMul(up, {&down, 1});
  }
}

}  // namespace

ActivationParams ActivationOf(const BatchContext& batch) {
  const ArchSpec& spec = *batch.hyperparams.spec;
  return {.kind = spec.activation, .limit = static_cast<float>(spec.activation_limit)};
}

void DenseFeedForward(const BatchContext& batch, const LayerContext& layer, Activations x,
                      Activations out) {
  const WeightSet& w = layer.weights;
  const Activations gate = batch.View(Buffer::kGate, layer.params.ffn_size);
  const Activations up = batch.View(Buffer::kUp, layer.params.ffn_size);
  const MatMulTarget up_target = Target(w, TensorRole::kFfnUp, TensorRole::kFfnUpBias, up);
  if (batch.hyperparams.spec->gate == GateKind::kNone) {
    batch.backend.ActivatedMatMul(ActivationOf(batch), x, nullptr, up_target);
  } else {
    const MatMulTarget gate_target =
        Target(w, TensorRole::kFfnGate, TensorRole::kFfnGateBias, gate);
    batch.backend.ActivatedMatMul(ActivationOf(batch), x, &gate_target, up_target);
  }
  const MatMulTarget down = Target(w, TensorRole::kFfnDown, TensorRole::kFfnDownBias, out);
  ProjectDown(batch, up, down);
}

}  // namespace baton::engine
