#include "engine/runtime/feed_forward.h"

namespace baton::engine {
namespace {

Routing RouteRows(const BatchContext& batch, const LayerContext& layer, Activations x) {
  const ExpertHyperParams& experts = batch.hyperparams.experts;
  const WeightSet& w = layer.weights;
  const Activations logits = batch.View(Buffer::kRouterLogits, experts.count);
  const MatMulTarget target = {&w.At(TensorRole::kRouter), w.Find(TensorRole::kRouterBias), logits};
  batch.backend.MatMul(x, {&target, 1});
  return batch.backend.Route({.score = experts.score,
                              .num_experts = experts.count,
                              .num_used = experts.used,
                              .num_groups = experts.num_groups,
                              .num_used_groups = experts.num_used_groups,
                              .normalize = experts.normalize,
                              .scale = static_cast<float>(experts.scale),
                              .selection_bias = w.Find(TensorRole::kSelectionBias)},
                             logits);
}

void RunChosenExperts(const BatchContext& batch, const LayerContext& layer, const Routing& routing,
                      Activations x, Activations out) {
  const HyperParams& h = batch.hyperparams;
  const WeightSet& w = layer.weights;
  const int32_t slots = batch.rows * h.experts.used;
  const Activations gate = batch.scratch.View(Buffer::kGate, slots, h.experts.ffn_size);
  const Activations up = batch.scratch.View(Buffer::kUp, slots, h.experts.ffn_size);
  const Activations down = batch.scratch.View(Buffer::kExpertOut, slots, h.hidden_size);
  Backend& backend = batch.backend;
  backend.ActivatedExpertMatMul(
      ActivationOf(batch), routing, x,
      {&w.At(TensorRole::kExpertGate), w.Find(TensorRole::kExpertGateBias), gate},
      {&w.At(TensorRole::kExpertUp), w.Find(TensorRole::kExpertUpBias), up});
  backend.ExpertMatMul(routing, up, w.At(TensorRole::kExpertDown),
                       w.Find(TensorRole::kExpertDownBias), down);
  backend.ExpertSum(routing, down, out);
}

// A router of one expert and no rivals: its weight is the sigmoid of its logit.
Activations GateSharedExpert(const BatchContext& batch, const LayerContext& layer, Activations x,
                             Activations shared, Activations gated) {
  const Activations logit = batch.View(Buffer::kRouterLogits, 1);
  const MatMulTarget target = {&layer.weights.At(TensorRole::kSharedRouter), nullptr, logit};
  batch.backend.MatMul(x, {&target, 1});
  const Routing routing =
      batch.backend.Route({.score = RouterScore::kSigmoid, .num_experts = 1, .num_used = 1}, logit);
  batch.backend.ExpertSum(routing, shared, gated);
  return gated;
}

void AddSharedExpert(const BatchContext& batch, const LayerContext& layer, Activations x,
                     Activations out) {
  const HyperParams& h = batch.hyperparams;
  const WeightSet& w = layer.weights;
  const Activations gate = batch.View(Buffer::kGate, h.experts.shared_ffn_size);
  const Activations up = batch.View(Buffer::kUp, h.experts.shared_ffn_size);
  const MatMulTarget gate_target = {&w.At(TensorRole::kSharedGate), nullptr, gate};
  batch.backend.ActivatedMatMul(ActivationOf(batch), x, &gate_target,
                                {&w.At(TensorRole::kSharedUp), nullptr, up});

  Activations shared = batch.View(Buffer::kExpertOut, h.hidden_size);
  const MatMulTarget down = {&w.At(TensorRole::kSharedDown), nullptr, shared};
  batch.backend.MatMul(up, {&down, 1});
  if (h.spec->shared_expert == SharedExpert::kGated) {
    shared = GateSharedExpert(batch, layer, x, shared, batch.View(Buffer::kNormed2, h.hidden_size));
  }
  batch.backend.Add(out, shared, 1.0f, out);
}

}  // namespace

void MixtureOfExperts(const BatchContext& batch, const LayerContext& layer, Activations x,
                      Activations out) {
  RunChosenExperts(batch, layer, RouteRows(batch, layer, x), x, out);
  if (batch.hyperparams.experts.shared_ffn_size > 0) AddSharedExpert(batch, layer, x, out);
}

}  // namespace baton::engine
