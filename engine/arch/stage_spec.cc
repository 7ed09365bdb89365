#include "engine/arch/stage_spec.h"

#include <unordered_set>

#include "engine/arch/fingerprint.h"
#include "engine/arch/tensor_table.h"
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
  std::unordered_set<const TensorInfo*> placed;  // a tied embedding is found in two roles
  for (const FoundTensor& tensor : found) {
    if (placed.insert(tensor.info).second) spec.tensors.push_back(PlacementOf(*tensor.info));
  }
  return spec;
}

}  // namespace baton::engine
