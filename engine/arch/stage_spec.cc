#include "engine/arch/stage_spec.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "engine/arch/fingerprint.h"
#include "engine/base/saturating.h"
#include "engine/gguf/gguf_writer.h"

namespace baton::engine {
namespace {

// The metadata that a worker needs to read the hyperparameters again, without the vocabulary's
// megabytes.
std::string ModelHeader(const Metadata& metadata, const HyperParams& hyperparams) {
  GgufWriter writer;
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (entry.key.starts_with("tokenizer.") || entry.key.starts_with("split.")) continue;
    writer.SetValue(entry.key, entry.value);
  }
  writer.SetUint32(fmt::format("{}.vocab_size", hyperparams.spec->name), hyperparams.vocab_size);
  return writer.Header();
}

TensorPlacement PlacementOf(const TensorInfo& info) {
  return {.name = std::string(info.name),
          .type = info.type,
          .ne = std::vector<int64_t>(info.ne.begin(), info.ne.begin() + info.num_dims),
          .part = info.part,
          .file_offset = info.file_offset,
          .bytes = info.bytes};
}

absl::Status CheckSizes(const HyperParams& h, int32_t context_length, int32_t num_kv_blocks,
                        int32_t max_rows) {
  if (context_length <= 0 || num_kv_blocks <= 0 || max_rows <= 0) {
    return InvalidArgument("stage: context {}, {} KV blocks, {} rows, expected all above 0",
                           context_length, num_kv_blocks, max_rows);
  }
  if (h.spec->position == PositionKind::kLearned && context_length > h.context_length) {
    return InvalidArgument(
        "context {}: expected up to {}, the positions that this model has learned", context_length,
        h.context_length);
  }
  return absl::OkStatus();
}

// A tied embedding is found in two roles and placed once.
std::vector<TensorPlacement> PlacementsOf(const std::vector<FoundTensor>& found) {
  std::vector<TensorPlacement> placements;
  std::unordered_set<const TensorInfo*> placed;
  for (const FoundTensor& tensor : found) {
    if (placed.insert(tensor.info).second) placements.push_back(PlacementOf(*tensor.info));
  }
  return placements;
}

}  // namespace

absl::StatusOr<StageSpec> MakeStageSpec(const GgufModel& model, const HyperParams& hyperparams,
                                        LayerRange layers, int32_t context_length,
                                        int32_t num_kv_blocks, int32_t max_rows, KvType kv_type) {
  RETURN_IF_ERROR(CheckSizes(hyperparams, context_length, num_kv_blocks, max_rows));
  const auto find = [&model](std::string_view name) { return model.FindTensor(name); };
  ASSIGN_OR_RETURN(const auto found,
                   FindStageTensors(hyperparams, layers, find, model.parts()[0].file_name));

  StageSpec spec;
  spec.model_header = ModelHeader(model.metadata(), hyperparams);
  spec.fingerprint = ModelFingerprint(model);
  spec.layers = layers;
  spec.context_length = context_length;
  spec.num_kv_blocks = num_kv_blocks;
  spec.max_rows = max_rows;
  spec.kv_type = kv_type;
  for (const GgufModel::Part& part : model.parts())
    spec.parts.push_back({part.file_name, part.bytes});
  spec.tensors = PlacementsOf(found);
  return spec;
}

absl::StatusOr<HyperParams> HyperParamsOf(const StageSpec& spec) {
  ASSIGN_OR_RETURN(const GgufHeader header,
                   ParseGgufHeader(spec.model_header, spec.model_header.size(), "model header"));
  return ParseHyperParams(header.metadata);
}

std::vector<TensorInfo> TensorInfosOf(const StageSpec& spec) {
  std::vector<TensorInfo> infos;
  infos.reserve(spec.tensors.size());
  for (const TensorPlacement& tensor : spec.tensors) {
    TensorInfo info{.name = tensor.name,
                    .num_dims = static_cast<int>(tensor.ne.size()),
                    .type = tensor.type,
                    .part = tensor.part,
                    .file_offset = tensor.file_offset,
                    .bytes = tensor.bytes};
    std::copy(tensor.ne.begin(), tensor.ne.end(), info.ne.begin());
    infos.push_back(info);
  }
  return infos;
}

absl::StatusOr<std::vector<FoundTensor>> FindSpecTensors(const HyperParams& hyperparams,
                                                         LayerRange layers,
                                                         std::span<const TensorInfo> infos) {
  std::unordered_map<std::string_view, const TensorInfo*> by_name;
  for (const TensorInfo& info : infos) {
    if (!by_name.emplace(info.name, &info).second)
      return InvalidArgument("{}: twice in the stage's list", info.name);
  }
  const auto find = [&by_name](std::string_view name) {
    const auto it = by_name.find(name);
    return it == by_name.end() ? nullptr : it->second;
  };
  return FindStageTensors(hyperparams, layers, find, "the stage's list");
}

uint64_t WeightsBytes(const StageSpec& spec) {
  uint64_t bytes = 0;
  for (const TensorPlacement& tensor : spec.tensors) bytes = SaturatingSum({bytes, tensor.bytes});
  return bytes;
}

absl::StatusOr<StageSpec> NarrowSpec(const StageSpec& spec, LayerRange layers) {
  if (layers.begin < spec.layers.begin || layers.end > spec.layers.end) {
    return InvalidArgument("layers [{}, {}): expected a range within [{}, {})", layers.begin,
                           layers.end, spec.layers.begin, spec.layers.end);
  }
  ASSIGN_OR_RETURN(const HyperParams hyperparams, HyperParamsOf(spec));
  const std::vector<TensorInfo> infos = TensorInfosOf(spec);
  ASSIGN_OR_RETURN(const auto found, FindSpecTensors(hyperparams, layers, infos));
  StageSpec narrow = spec;
  narrow.layers = layers;
  narrow.tensors = PlacementsOf(found);
  return narrow;
}

}  // namespace baton::engine
