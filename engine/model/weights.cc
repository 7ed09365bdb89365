#include "engine/model/weights.h"

namespace baton::engine {
namespace {

TensorView ViewOf(const TensorInfo& info, const std::byte* data) {
  return {.name = info.name, .type = info.type, .ne = info.ne, .data = data, .bytes = info.bytes};
}

// Binds a tensor, or each slice of a fused one: slices are runs of whole rows of a matrix, or of
// numbers of a vector.
absl::Status BindTensor(const FoundTensor& tensor, const HyperParams& h, const std::byte* data,
                        Backend& backend, WeightSet& weights) {
  TensorView whole = ViewOf(*tensor.info, data);
  if (tensor.row->slices[0].size == Dim::kNone) {
    ASSIGN_OR_RETURN(Weight weight, backend.Prepare(whole));
    weights.Set(tensor.row->role, std::move(weight));
    return absl::OkStatus();
  }
  const size_t dim = tensor.row->vector ? 0 : 1;
  for (const TensorSlice& slice : tensor.row->slices) {
    if (slice.size == Dim::kNone) break;
    TensorView part = whole;
    part.ne[dim] = DimSize(slice.size, h, tensor.layer);
    part.bytes = static_cast<uint64_t>(kernels::RowBytes(part.type, part.ne[0]) * part.ne[1]);
    ASSIGN_OR_RETURN(Weight weight, backend.Prepare(part));
    weights.Set(slice.role, std::move(weight));
    whole.data += part.bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Weights> Weights::Bind(const HyperParams& hyperparams, LayerRange layers,
                                      const std::vector<FoundTensor>& tensors, const Locate& locate,
                                      Backend& backend) {
  Weights weights;
  weights.first_layer_ = layers.begin;
  weights.layers_.resize(layers.size());
  const TensorInfo* embedding = nullptr;
  for (const FoundTensor& tensor : tensors) {
    WeightSet& set =
        tensor.layer < 0 ? weights.model_ : weights.layers_[tensor.layer - layers.begin];
    if (tensor.row->role == TensorRole::kTokenEmbedding) embedding = tensor.info;
    if (tensor.row->role == TensorRole::kOutput &&
        tensor.info == embedding) {  // tied: one copy on any backend
      set.Set(TensorRole::kOutput, set.At(TensorRole::kTokenEmbedding));
      continue;
    }
    RETURN_IF_ERROR(BindTensor(tensor, hyperparams, locate(*tensor.info), backend, set));
  }
  return weights;
}

Weight VectorOf(const Weight& weight, int32_t index) {
  Weight vector = weight;
  vector.data = static_cast<const float*>(weight.data) + index * weight.ne[0];
  vector.ne = {weight.ne[0], 1, 1, 1};
  return vector;
}

}  // namespace baton::engine
