#include "engine/runtime/local_pipeline.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace baton::engine {

std::vector<LayerRange> EvenStages(int32_t num_layers, int32_t num_stages) {
  std::vector<LayerRange> stages;
  for (int32_t i = 0; i < num_stages; ++i) {
    const auto bound = [&](int32_t s) {
      return static_cast<int32_t>(static_cast<int64_t>(num_layers) * s / num_stages);
    };
    stages.push_back({bound(i), bound(i + 1)});
  }
  return stages;
}

absl::StatusOr<LocalPipeline> LocalPipeline::Open(const GgufModel& model,
                                                  const LocalPipelineOptions& options,
                                                  Backend* backend) {
  ASSIGN_OR_RETURN(const HyperParams hyperparams, ParseHyperParams(model));
  const int32_t context =
      options.context_length > 0 ? options.context_length : hyperparams.context_length;
  const int32_t num_blocks = (context - 1) / kKvBlockPositions + 1;
  const auto ranges =
      options.stages.empty() ? EvenStages(hyperparams.num_layers, 1) : options.stages;
  const LoadOptions load = {
      .models_dir = std::filesystem::path(model.parts()[0].path).parent_path().string(),
      .progress = {}};
  LocalPipeline pipeline;
  for (const LayerRange range : ranges) {
    ASSIGN_OR_RETURN(const StageSpec spec,
                     MakeStageSpec(model, hyperparams, range, context, num_blocks, options.max_rows,
                                   options.kv_type));
    ASSIGN_OR_RETURN(auto stage, Stage::Load(spec, load, backend));
    pipeline.stages_.push_back(std::move(stage));
  }
  pipeline.kv_blocks_.resize(num_blocks);
  std::iota(pipeline.kv_blocks_.begin(), pipeline.kv_blocks_.end(), 0);
  return pipeline;
}

absl::StatusOr<std::vector<RowResult>> LocalPipeline::Run(const MicroBatch& batch) {
  RETURN_IF_ERROR(CheckMicroBatch(batch, stages_[0]->limits()));
  HiddenStates hidden;
  StageOutput output;
  for (const auto& stage : stages_) {
    RETURN_IF_ERROR(stage->Run(batch, stage->first() ? nullptr : &hidden, &output));
    std::swap(hidden, output.hidden);
  }
  return std::move(output.results);
}

absl::Status LocalPipeline::CopyKvBlock(int32_t from, int32_t to) {
  for (const auto& stage : stages_) {
    std::vector<std::byte> bytes(stage->kv_block_bytes());
    RETURN_IF_ERROR(stage->ReadKvBlock(from, bytes));
    RETURN_IF_ERROR(stage->WriteKvBlock(to, bytes));
  }
  return absl::OkStatus();
}

MicroBatch LocalPipeline::MakeBatch(std::span<const TokenId> tokens, size_t first_wanted) const {
  MicroBatch batch;
  batch.tokens.assign(tokens.begin(), tokens.end());
  batch.sequences.push_back(
      {.first_position = position_, .num_rows = batch.rows(), .kv_blocks = kv_blocks_});
  for (size_t row = first_wanted; row < tokens.size(); ++row) {
    OutputRow output;
    output.row = static_cast<int32_t>(row);
    output.kind = OutputKind::kLogits;
    batch.outputs.push_back(std::move(output));
  }
  return batch;
}

absl::StatusOr<std::vector<float>> LocalPipeline::Feed(std::span<const TokenId> tokens,
                                                       size_t first_wanted, int32_t chunk) {
  const int32_t max_rows = stages_[0]->limits().max_rows;
  const size_t step = chunk > 0 ? std::min(chunk, max_rows) : max_rows;
  std::vector<float> logits;
  for (size_t begin = 0; begin < tokens.size(); begin += step) {
    const auto some = tokens.subspan(begin, std::min(step, tokens.size() - begin));
    const size_t wanted = first_wanted > begin ? first_wanted - begin : 0;
    ASSIGN_OR_RETURN(const auto results, Run(MakeBatch(some, wanted)));
    for (const RowResult& result : results)
      logits.insert(logits.end(), result.logits.begin(), result.logits.end());
    position_ += static_cast<int32_t>(some.size());
  }
  return logits;
}

}  // namespace baton::engine
