#include "engine/arch/cost.h"

#include "engine/arch/scratch_plan.h"
#include "engine/arch/tensor_table.h"
#include "engine/base/saturating.h"
#include "kernels/quant_types.h"

namespace baton::engine {
namespace {

bool IsExpertMatrix(TensorRole role) {
  return role == TensorRole::kExpertGate || role == TensorRole::kExpertUp ||
         role == TensorRole::kExpertDown;
}

// The share of a tensor that one token reads.
double UsedShare(const FoundTensor& tensor, const HyperParams& h) {
  if (IsExpertMatrix(tensor.row->role))
    return static_cast<double>(h.experts.used) / h.experts.count;
  if (tensor.row->role == TensorRole::kTokenEmbedding) return 1.0 / h.vocab_size;
  if (tensor.row->role == TensorRole::kPositionEmbedding) return 1.0 / h.context_length;
  return 1.0;
}

void AddTensor(const FoundTensor& tensor, const HyperParams& h, LayerCost& cost) {
  const double share = UsedShare(tensor, h);
  cost.weights_bytes += tensor.info->bytes;
  cost.read_bytes_per_token +=
      static_cast<uint64_t>(share * static_cast<double>(tensor.info->bytes));
  const bool matrix = tensor.info->ne[1] > 1 && tensor.row->place != TensorPlace::kFirstStage;
  if (matrix) {
    cost.flops_per_token +=
        static_cast<uint64_t>(2 * share * static_cast<double>(tensor.info->num_elements()));
  }
}

LayerCost& CostOf(const FoundTensor& tensor, ModelCost& cost) {
  if (tensor.layer >= 0) return cost.layers[tensor.layer];
  return tensor.row->place == TensorPlace::kLastStage ? cost.last : cost.first;
}

}  // namespace

uint64_t KvBytesPerPosition(const HyperParams& h, int32_t layer, KvType kv_type) {
  const uint64_t per_head = h.cache_key_dim() + (h.cache_value_in_key() ? 0 : h.cache_value_dim());
  const uint64_t values = per_head * h.cache_heads(layer);
  switch (kv_type) {
    case KvType::kF32:
      return values * 4;
    case KvType::kF16:
      return values * 2;
    case KvType::kQ8_0:
      return kernels::RowBytes(kernels::QuantType::kQ8_0,
                               static_cast<int64_t>((values + 31) / 32 * 32));
  }
  return 0;
}

absl::StatusOr<ModelCost> CostOfModel(const GgufModel& model, const HyperParams& hyperparams,
                                      KvType kv_type) {
  const auto find = [&model](std::string_view name) { return model.FindTensor(name); };
  ASSIGN_OR_RETURN(const auto found, FindStageTensors(hyperparams, {0, hyperparams.num_layers},
                                                      find, model.parts()[0].file_name));
  ModelCost cost;
  cost.layers.resize(hyperparams.num_layers);
  for (const FoundTensor& tensor : found) {
    if (tensor.row->place == TensorPlace::kEveryStage) {
      cost.shared_bytes += tensor.info->bytes;
    } else {
      AddTensor(tensor, hyperparams, CostOf(tensor, cost));
    }
    if (tensor.row->role == TensorRole::kOutput && tensor.info == find("token_embd.weight")) {
      cost.tied_bytes = tensor.info->bytes;
    }
  }
  for (int32_t layer = 0; layer < hyperparams.num_layers; ++layer) {
    cost.layers[layer].kv_bytes_per_position = KvBytesPerPosition(hyperparams, layer, kv_type);
  }
  return cost;
}

StageCost CostOfStage(const ModelCost& model, LayerRange layers) {
  StageCost stage{.weights_bytes = model.shared_bytes};
  const auto add = [&stage](const LayerCost& cost) {
    stage.weights_bytes += cost.weights_bytes;
    stage.kv_bytes_per_position += cost.kv_bytes_per_position;
    stage.read_bytes_per_token += cost.read_bytes_per_token;
    stage.flops_per_token += cost.flops_per_token;
  };
  for (int32_t layer = layers.begin; layer < layers.end; ++layer) add(model.layers[layer]);
  const bool first = layers.begin == 0;
  const bool last = layers.end == static_cast<int32_t>(model.layers.size());
  if (first) add(model.first);
  if (last) add(model.last);
  if (first && last) stage.weights_bytes -= model.tied_bytes;
  return stage;
}

uint64_t ScratchBytes(const HyperParams& hyperparams, LayerRange layers, int32_t max_rows) {
  return SaturatingProduct({PlanScratch(hyperparams, layers, max_rows).floats, sizeof(float)});
}

}  // namespace baton::engine
