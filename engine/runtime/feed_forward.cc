#include "engine/runtime/feed_forward.h"

#include <array>

namespace baton::engine {
namespace {

ActivationParams ActivationOf(const ArchSpec& spec) {
  return {.kind = spec.activation, .limit = static_cast<float>(spec.activation_limit)};
}

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

void ActivateGated(const BatchContext& batch, Activations gate, Activations up) {
  batch.backend.GatedActivation(ActivationOf(*batch.hyperparams.spec), gate, up, up);
}

void DenseFeedForward(const BatchContext& batch, const LayerContext& layer, Activations x,
                      Activations out) {
  const ArchSpec& spec = *batch.hyperparams.spec;
  const WeightSet& w = layer.weights;
  const Activations up = batch.View(Buffer::kUp, layer.params.ffn_size);
  const MatMulTarget up_target = Target(w, TensorRole::kFfnUp, TensorRole::kFfnUpBias, up);
  if (spec.gate == GateKind::kNone) {
    batch.backend.MatMul(x, {&up_target, 1});
    batch.backend.Activate(ActivationOf(spec), up);
  } else {
    const Activations gate = batch.View(Buffer::kGate, layer.params.ffn_size);
    const std::array<MatMulTarget, 2> targets = {
        Target(w, TensorRole::kFfnGate, TensorRole::kFfnGateBias, gate), up_target};
    batch.backend.MatMul(x, targets);
    ActivateGated(batch, gate, up);
  }
  const MatMulTarget down = Target(w, TensorRole::kFfnDown, TensorRole::kFfnDownBias, out);
  ProjectDown(batch, up, down);
}

}  // namespace baton::engine
