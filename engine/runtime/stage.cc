#include "engine/runtime/stage.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>

#include "engine/arch/cost.h"
#include "engine/arch/tensor_table.h"
#include "engine/base/saturating.h"
#include "engine/model/mapped_parts.h"
#include "engine/model/weights.h"
#include "engine/runtime/decoder_layer.h"
#include "engine/runtime/kv_cache.h"
#include "engine/runtime/norm.h"
#include "engine/runtime/output_head.h"
#include "engine/runtime/position_tables.h"
#include "engine/runtime/scratch.h"

namespace baton::engine {
namespace {

absl::Status CheckSizes(const StageSpec& spec) {
  if (spec.context_length > 0 && spec.num_kv_blocks > 0 && spec.max_rows > 0)
    return absl::OkStatus();
  return InvalidArgument("stage: context {}, {} KV blocks, {} rows, expected all above 0",
                         spec.context_length, spec.num_kv_blocks, spec.max_rows);
}

absl::StatusOr<std::vector<float>> ReadFactors(const TensorInfo& info, const MappedParts& parts) {
  std::vector<float> factors(info.bytes / sizeof(float));
  std::memcpy(factors.data(), parts.Locate(info.part, info.file_offset), info.bytes);
  for (const float factor : factors) {
    if (!std::isfinite(factor) || factor <= 0) {
      return DataLoss("{}: a factor of {}, expected finite ones above 0", info.name, factor);
    }
  }
  return factors;
}

absl::StatusOr<RopeFactors> ReadRopeFactors(const std::vector<FoundTensor>& tensors,
                                            const MappedParts& parts) {
  RopeFactors factors;
  for (const FoundTensor& tensor : tensors) {
    std::vector<float>* target = nullptr;
    if (tensor.row->role == TensorRole::kRopeFactors) target = &factors.all;
    if (tensor.row->role == TensorRole::kRopeFactorsLong) target = &factors.longer;
    if (tensor.row->role == TensorRole::kRopeFactorsShort) target = &factors.shorter;
    if (target == nullptr) continue;
    ASSIGN_OR_RETURN(*target, ReadFactors(*tensor.info, parts));
  }
  return factors;
}

constexpr uint64_t kLockedAtOnce = uint64_t{64} << 20;  // between two words of progress

// Tells how far a load has come, in which the weights are gone through once or twice.
class ProgressTeller {
 public:
  ProgressTeller(const LoadOptions& options, uint64_t total)
      : progress_(options.progress), passes_(options.mlock ? 2 : 1), total_(total) {}

  void Add(uint64_t bytes) {
    done_ += bytes;
    if (progress_) wanted_ = wanted_ && progress_(std::min(done_ / passes_, total_), total_);
  }
  void EndPass() { done_ = total_; }  // also where it was cut short
  absl::Status wanted() const {
    return wanted_ ? absl::OkStatus() : Cancelled("loading was given up");
  }

 private:
  const LoadProgress& progress_;
  const uint64_t passes_, total_;
  uint64_t done_ = 0;
  bool wanted_ = true;
};

// Each step reads all of a weight, but only some rows of a table, whose huge pages would be read
// from the disk for a row each.
void PreferHugePages(const std::vector<FoundTensor>& tensors, const MappedParts& parts) {
  for (const FoundTensor& tensor : tensors) {
    const TensorRole role = tensor.row->role;
    if (role == TensorRole::kTokenEmbedding || role == TensorRole::kPositionEmbedding) continue;
    parts.PreferHugePages(tensor.info->part, tensor.info->file_offset, tensor.info->bytes);
  }
}

// Pins exactly the stage's tensors, which reads them from the disk. What the system refuses is a
// warning: the stage works unpinned.
absl::Status LockTensors(const StageSpec& spec, const MappedParts& parts, ProgressTeller& progress,
                         std::vector<std::string>& warnings) {
  for (const TensorPlacement& tensor : spec.tensors) {
    for (uint64_t at = 0; at < tensor.bytes; at += kLockedAtOnce) {
      const uint64_t bytes = std::min(kLockedAtOnce, tensor.bytes - at);
      const absl::Status status = parts.Lock(tensor.part, tensor.file_offset + at, bytes);
      if (!status.ok()) {
        warnings.push_back(
            fmt::format("weights are not locked in memory (the stage needs {} bytes): {}",
                        WeightsBytes(spec), Message(status)));
        return absl::OkStatus();
      }
      progress.Add(bytes);
      RETURN_IF_ERROR(progress.wanted());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StageMemory> Stage::MemoryOf(const StageSpec& spec) {
  RETURN_IF_ERROR(CheckSizes(spec));
  RETURN_IF_ERROR(CheckPlacements(spec));
  ASSIGN_OR_RETURN(const HyperParams hyperparams, HyperParamsOf(spec));
  StageMemory memory{.weights_bytes = WeightsBytes(spec),
                     .scratch_bytes = ScratchBytes(hyperparams, spec.layers, spec.max_rows)};
  const uint64_t positions = uint64_t{kKvBlockPositions} * spec.num_kv_blocks;
  for (int32_t layer = spec.layers.begin; layer < spec.layers.end; ++layer) {
    memory.kv_bytes = SaturatingSum(
        {memory.kv_bytes,
         SaturatingProduct({positions, KvBytesPerPosition(hyperparams, layer, spec.kv_type)})});
  }
  return memory;
}

struct Stage::Impl {
  StageSpec spec;
  HyperParams hyperparams;
  Backend* backend = nullptr;
  MappedParts parts;
  Weights weights;
  KvCache cache;
  Scratch scratch;
  PositionTables positions;
  std::optional<OutputHead> head;  // of the last stage
  bool rotates = false;            // some layer of this stage uses the model's RoPE
  bool rotates_windows = false;    // … that of window layers
  std::vector<std::string> warnings;
  BatchLayout layout;  // of the micro-batch that runs
  std::unique_ptr<RepeatedWork> repeated_layers, repeated_with_logits;
  struct Leaving {
    int32_t rows = 0, cols = 0;
    std::unique_ptr<HostCopy> copy;
  };
  std::deque<Leaving> leaving;  // hidden states of the micro-batches that were started

  bool first() const { return spec.layers.begin == 0; }
  bool last() const { return spec.layers.end == hyperparams.num_layers; }

  absl::Status Load(const LoadOptions& options);
  absl::Status PlanMemory() const;
  absl::Status BindWeights(const std::vector<FoundTensor>& tensors, ProgressTeller& progress);
  void NoteRotations();

  void LayOut(const MicroBatch& batch);
  BatchContext MakeContext(const MicroBatch& batch);
  void MakeRopeTables(BatchContext& context) const;
  void Embed(const BatchContext& context, const MicroBatch& batch, Activations hidden);
  void RunLayers(BatchContext& context, const MicroBatch& batch, Activations hidden);
  // From the micro-batch or the stage before to the last layer's hidden states.
  Activations Compute(BatchContext& context, const MicroBatch& batch, const HiddenStates* input);

  // Calls visit(the block's place as a row of words, its offset in all layers' bytes) layer by
  // layer.
  template <typename Visit>
  absl::Status ForKvBlock(int32_t block, const Visit& visit) const;
};

absl::Status Stage::Impl::Load(const LoadOptions& options) {
  RETURN_IF_ERROR(CheckSizes(spec));
  RETURN_IF_ERROR(CheckPlacements(spec));
  ASSIGN_OR_RETURN(hyperparams, HyperParamsOf(spec));
  const std::vector<TensorInfo> infos = TensorInfosOf(spec);
  ASSIGN_OR_RETURN(const std::vector<FoundTensor> tensors,
                   FindSpecTensors(hyperparams, spec.layers, infos));
  ASSIGN_OR_RETURN(parts, MappedParts::Open(spec, options.models_dir));
  RETURN_IF_ERROR(PlanMemory());
  PreferHugePages(tensors, parts);
  ProgressTeller progress(options, WeightsBytes(spec));
  if (options.mlock) {
    RETURN_IF_ERROR(LockTensors(spec, parts, progress, warnings));
    progress.EndPass();
  }
  RETURN_IF_ERROR(BindWeights(tensors, progress));
  ASSIGN_OR_RETURN(const RopeFactors factors, ReadRopeFactors(tensors, parts));
  positions = MakePositionTables(hyperparams, factors, spec.context_length);
  NoteRotations();
  ASSIGN_OR_RETURN(
      cache, KvCache::Create(hyperparams, spec.layers, spec.num_kv_blocks, spec.kv_type, *backend));
  ASSIGN_OR_RETURN(scratch, Scratch::Create(hyperparams, spec.layers, spec.max_rows, *backend));
  if (last()) head.emplace(weights.model());
  return absl::OkStatus();
}

absl::Status Stage::Impl::PlanMemory() const {
  MemoryNeed need{.weights_bytes = WeightsBytes(spec),
                  .kv_bytes = KvCache::BytesOf(hyperparams, spec.layers, spec.num_kv_blocks,
                                               spec.kv_type, *backend)};
  const ScratchPlan plan = PlanScratch(hyperparams, spec.layers, spec.max_rows);
  need.scratch_bytes = SaturatingProduct({plan.floats, sizeof(float)});
  for (int i = 0; i < kNumBuffers; ++i) {
    if (static_cast<Buffer>(i) != Buffer::kLogits)
      need.largest_activations = std::max(need.largest_activations, plan.sizes[i]);
  }
  return backend->Plan(need);
}

absl::Status Stage::Impl::BindWeights(const std::vector<FoundTensor>& tensors,
                                      ProgressTeller& progress) {
  const auto locate = [&](const TensorInfo& info) {
    progress.Add(info.bytes);
    return parts.Locate(info.part, info.file_offset);
  };
  ASSIGN_OR_RETURN(weights, Weights::Bind(hyperparams, spec.layers, tensors, locate, *backend));
  return progress.wanted();
}

void Stage::Impl::NoteRotations() {
  for (int32_t i = spec.layers.begin; i < spec.layers.end; ++i) {
    const LayerHyperParams& layer = hyperparams.layers[i];
    rotates |= layer.rotates && !layer.window_rope;
    rotates_windows |= layer.rotates && layer.window_rope;
  }
}

void Stage::Impl::LayOut(const MicroBatch& batch) {
  layout.positions.clear();
  layout.sequence.clear();
  layout.block_tables.clear();
  for (const SequenceRows& rows : batch.sequences) {
    const auto index = static_cast<int32_t>(layout.block_tables.size());
    layout.block_tables.emplace_back(rows.kv_blocks);
    for (int32_t i = 0; i < rows.num_rows; ++i) {
      layout.positions.push_back(rows.first_position + i);
      layout.sequence.push_back(index);
    }
  }
}

BatchContext Stage::Impl::MakeContext(const MicroBatch& batch) {
  LayOut(batch);
  BatchContext context{.backend = *backend,
                       .hyperparams = hyperparams,
                       .scratch = scratch,
                       .layout = layout,
                       .rows = batch.rows(),
                       .rope = {},
                       .window_rope = {},
                       .latent_key_rope = {}};
  if (!positions.alibi_slopes.empty()) context.alibi_slopes = positions.alibi_slopes.data();
  return context;
}

void Stage::Impl::MakeRopeTables(BatchContext& context) const {
  if (rotates) context.rope = backend->MakeRopeTable(positions.rope, layout);
  if (rotates_windows) context.window_rope = backend->MakeRopeTable(positions.window_rope, layout);
  // The same angles at another place of the head.
  context.latent_key_rope = {&positions.latent_key_rope, context.rope.cos_sin};
}

void Stage::Impl::Embed(const BatchContext& context, const MicroBatch& batch, Activations hidden) {
  const WeightSet& model = weights.model();
  backend->Embed(model.At(TensorRole::kTokenEmbedding), batch.tokens, hidden);
  if (hyperparams.embedding_scale != 1.0) {
    backend->Scale(hidden, static_cast<float>(hyperparams.embedding_scale));
  }
  if (const Weight* table = model.Find(TensorRole::kPositionEmbedding)) {
    const Activations places = context.View(Buffer::kBranch, hyperparams.hidden_size);
    backend->Embed(*table, layout.positions, places);
    backend->Add(hidden, places, 1.0f, hidden);
  }
  if (hyperparams.spec->embedding_norm) {
    Normalize(context, model, TensorRole::kEmbeddingNorm, TensorRole::kEmbeddingNormBias, hidden,
              hidden);
  }
}

void Stage::Impl::RunLayers(BatchContext& context, const MicroBatch& batch, Activations hidden) {
  const bool with_logits = last() && OutputHead::WantsAllRows(batch);
  backend->Repeat(layout, with_logits ? repeated_with_logits : repeated_layers, [&] {
    MakeRopeTables(context);
    for (int32_t i = spec.layers.begin; i < spec.layers.end; ++i) {
      RunDecoderLayer(context, {hyperparams.layers[i], weights.layer(i), cache.layer(i)}, hidden);
    }
    if (with_logits) head->ComputeLogits(context, batch.outputs, hidden);
  });
}

template <typename Visit>
absl::Status Stage::Impl::ForKvBlock(int32_t block, const Visit& visit) const {
  if (block < 0 || block >= spec.num_kv_blocks)
    return InvalidArgument("KV block {}: expected 0 to {}", block, spec.num_kv_blocks - 1);
  size_t offset = 0;
  for (int32_t i = spec.layers.begin; i < spec.layers.end; ++i) {
    const KvLayer& layer = cache.layer(i);
    const size_t bytes = backend->KvBlockBytes(layer);
    const auto words = static_cast<int32_t>(bytes / sizeof(float));  // moved, never computed with
    auto* pool = static_cast<float*>(layer.blocks->data());
    visit(
        Activations{
            .data = pool + int64_t{block} * words, .rows = 1, .cols = words, .stride = words},
        offset);
    offset += bytes;
  }
  return backend->Sync();
}

absl::StatusOr<std::unique_ptr<Stage>> Stage::Load(const StageSpec& spec,
                                                   const LoadOptions& options, Backend* backend) {
  auto impl = std::make_unique<Impl>();
  impl->spec = spec;
  impl->backend = backend;
  RETURN_IF_ERROR(impl->Load(options));
  return std::unique_ptr<Stage>(new Stage(std::move(impl)));
}

Stage::Stage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stage::~Stage() = default;

bool Stage::first() const { return impl_->first(); }
bool Stage::last() const { return impl_->last(); }
const HyperParams& Stage::hyperparams() const { return impl_->hyperparams; }
LayerRange Stage::layers() const { return impl_->spec.layers; }
uint64_t Stage::weights_bytes() const { return WeightsBytes(impl_->spec); }
uint64_t Stage::kv_bytes() const { return impl_->cache.bytes(); }
const std::vector<std::string>& Stage::warnings() const { return impl_->warnings; }

MicroBatchLimits Stage::limits() const {
  return {.vocab_size = impl_->hyperparams.vocab_size,
          .context_length = impl_->spec.context_length,
          .num_kv_blocks = impl_->spec.num_kv_blocks,
          .max_rows = impl_->spec.max_rows};
}

Activations Stage::Impl::Compute(BatchContext& context, const MicroBatch& batch,
                                 const HiddenStates* input) {
  const Activations hidden = context.View(Buffer::kHidden, hyperparams.hidden_size);
  if (first()) {
    Embed(context, batch, hidden);
  } else {
    backend->FromHost(input->values.data(), hidden);
  }
  RunLayers(context, batch, hidden);
  return hidden;
}

absl::Status Stage::Run(const MicroBatch& batch, const HiddenStates* input, StageOutput* output) {
  if (overlaps()) {
    RETURN_IF_ERROR(Start(batch, input));
    return Finish(output);
  }
  BatchContext context = impl_->MakeContext(batch);
  const Activations hidden = impl_->Compute(context, batch, input);
  if (last()) {
    RETURN_IF_ERROR(impl_->head->Run(context, batch, hidden, output->results));
    output->hidden = {};
  } else {
    output->hidden.rows = hidden.rows;
    output->hidden.cols = hidden.cols;
    output->hidden.values.resize(static_cast<size_t>(hidden.rows) * hidden.cols);
    impl_->backend->ToHost(hidden, output->hidden.values.data());
    output->results.clear();
  }
  return impl_->backend->Sync();
}

bool Stage::overlaps() const { return !last() && impl_->backend->overlaps_copies(); }

absl::Status Stage::Start(const MicroBatch& batch, const HiddenStates* input) {
  BatchContext context = impl_->MakeContext(batch);
  const Activations hidden = impl_->Compute(context, batch, input);
  std::unique_ptr<HostCopy> copy = impl_->backend->StartToHost(hidden);
  RETURN_IF_ERROR(impl_->backend->TakeError());
  impl_->leaving.push_back({hidden.rows, hidden.cols, std::move(copy)});
  return absl::OkStatus();
}

absl::Status Stage::Finish(StageOutput* output) {
  const Impl::Leaving oldest = std::move(impl_->leaving.front());
  impl_->leaving.pop_front();
  output->hidden.rows = oldest.rows;
  output->hidden.cols = oldest.cols;
  output->results.clear();
  return oldest.copy->Take(output->hidden.values);
}

uint64_t Stage::kv_block_bytes() const {
  uint64_t bytes = 0;
  for (int32_t i = layers().begin; i < layers().end; ++i)
    bytes += impl_->backend->KvBlockBytes(impl_->cache.layer(i));
  return bytes;
}

absl::Status Stage::ReadKvBlock(int32_t block, std::span<std::byte> bytes) const {
  return impl_->ForKvBlock(block, [&](Activations here, size_t offset) {
    impl_->backend->ToHost(here, reinterpret_cast<float*>(bytes.data() + offset));
  });
}

absl::Status Stage::WriteKvBlock(int32_t block, std::span<const std::byte> bytes) {
  return impl_->ForKvBlock(block, [&](Activations here, size_t offset) {
    impl_->backend->FromHost(reinterpret_cast<const float*>(bytes.data() + offset), here);
  });
}

}  // namespace baton::engine
