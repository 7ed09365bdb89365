// Stages without a model, for tests of what stands around them. A row's hidden state says which
// layers it has been through, so a result tells whether the pipeline was whole and in order.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "worker/stage_runner.h"

namespace baton::testing {

inline constexpr int32_t kFakeHiddenSize = 64;
inline constexpr int32_t kFakeLayers = 6;
inline constexpr int32_t kFakeVocab = 1000;
inline constexpr int32_t kFakeMaxRows = 512;

// What a test may do to stages while they run; shared by all stages of a loader.
struct FakeStageControl {
  std::function<void(const engine::MicroBatch&)>
      on_run;  // on the compute thread, before the step; set before loading
  std::function<void(const engine::LoadProgress&)> on_load;  // set before loading
  std::atomic<int> loads = 0;
  std::atomic<bool> file_changed = false;
  absl::Status load_error;
  int32_t hidden_size = kFakeHiddenSize;
  bool overlaps = false;
  std::vector<std::string> order;  // of starts and finishes; the compute thread's
};

// The token after `token`, by all layers: what FakeStage's last stage draws.
inline engine::TokenId FakeStageToken(engine::TokenId token) {
  int64_t value = token;
  for (int32_t layer = 0; layer < kFakeLayers; ++layer)
    value = (value * 3 + layer + 1) % kFakeVocab;
  return static_cast<engine::TokenId>(value);
}

class FakeStage : public worker::StageRunner {
 public:
  FakeStage(engine::StageSpec spec, std::shared_ptr<FakeStageControl> control)
      : spec_(std::move(spec)), control_(std::move(control)) {}

  bool first() const override { return spec_.layers.begin == 0; }
  bool last() const override { return spec_.layers.end == kFakeLayers; }
  int32_t hidden_size() const override { return control_->hidden_size; }
  engine::MicroBatchLimits limits() const override {
    return {.vocab_size = kFakeVocab,
            .context_length = spec_.context_length,
            .num_kv_blocks = spec_.num_kv_blocks,
            .max_rows = spec_.max_rows};
  }
  uint64_t weights_bytes() const override { return 1000; }
  uint64_t kv_bytes() const override { return 100; }
  std::vector<std::string> warnings() const override { return {}; }
  absl::Status CheckFiles() override {
    return control_->file_changed ? DataLoss("model.gguf: the file behind the weights has changed")
                                  : absl::OkStatus();
  }

  absl::Status Run(const engine::MicroBatch& batch, const engine::HiddenStates* input,
                   engine::StageOutput* output) override {
    if (control_->on_run) control_->on_run(batch);
    return Compute(batch, input, output);
  }
  bool overlaps() const override { return control_->overlaps && !last(); }
  absl::Status Start(const engine::MicroBatch& batch, const engine::HiddenStates* input) override {
    control_->order.push_back(fmt::format("start {}", batch.id));
    return Run(batch, input, &started_.emplace_back(batch.id, engine::StageOutput()).second);
  }
  absl::Status Finish(engine::StageOutput* output) override {
    control_->order.push_back(fmt::format("finish {}", started_.front().first));
    *output = std::move(started_.front().second);
    started_.pop_front();
    return absl::OkStatus();
  }

 private:
  absl::Status Compute(const engine::MicroBatch& batch, const engine::HiddenStates* input,
                       engine::StageOutput* output) {
    std::vector<int64_t> values(batch.tokens.begin(), batch.tokens.end());
    if (input != nullptr) {
      for (int32_t row = 0; row < batch.rows(); ++row)
        values[row] = static_cast<int64_t>(input->values[row * hidden_size()]);
    }
    for (int32_t layer = spec_.layers.begin; layer < spec_.layers.end; ++layer) {
      for (int64_t& value : values) value = (value * 3 + layer + 1) % kFakeVocab;
    }
    if (last()) {
      for (const engine::OutputRow& row : batch.outputs) {
        engine::RowResult result{.row = row.row,
                                 .token = static_cast<engine::TokenId>(values[row.row]),
                                 .logprob = 0,
                                 .top = {},
                                 .logits = {}};
        if (row.kind == engine::OutputKind::kLogits)
          result.logits.assign(kFakeVocab, static_cast<float>(row.row));
        output->results.push_back(std::move(result));
      }
    } else {
      output->hidden = {batch.rows(), hidden_size(),
                        std::vector<float>(static_cast<size_t>(batch.rows()) * hidden_size())};
      for (int32_t row = 0; row < batch.rows(); ++row)
        output->hidden.values[row * hidden_size()] = static_cast<float>(values[row]);
    }
    return absl::OkStatus();
  }

  const engine::StageSpec spec_;
  const std::shared_ptr<FakeStageControl> control_;
  std::deque<std::pair<uint64_t, engine::StageOutput>> started_;
};

class FakeStageLoader : public worker::StageLoader {
 public:
  explicit FakeStageLoader(
      std::shared_ptr<FakeStageControl> control = std::make_shared<FakeStageControl>())
      : control_(std::move(control)) {}

  std::string device() const override { return "fake"; }
  std::string backend() const override { return "fake"; }
  int threads() const override { return 1; }
  uint64_t weight_bytes_received() const override { return 0; }
  absl::StatusOr<engine::StageMemory> MemoryOf(const engine::StageSpec& spec) const override {
    engine::StageMemory memory{.kv_bytes = 100, .scratch_bytes = 10};
    for (const engine::TensorPlacement& tensor : spec.tensors) memory.weights_bytes += tensor.bytes;
    return memory;
  }
  absl::StatusOr<std::unique_ptr<worker::StageRunner>> Load(
      const engine::StageSpec& spec, const std::vector<std::string>&,
      const worker::LoadProgress& progress) override {
    ++control_->loads;
    RETURN_IF_ERROR(control_->load_error);
    if (control_->on_load) control_->on_load(progress);
    if (progress && !progress(500, 1000)) return Cancelled("loading was given up");
    return std::make_unique<FakeStage>(spec, control_);
  }

 private:
  const std::shared_ptr<FakeStageControl> control_;
};

inline engine::StageSpec FakeSpec(int32_t begin, int32_t end) {
  engine::StageSpec spec;
  spec.model_header = "header";
  spec.fingerprint = "fake-model";
  spec.layers = {begin, end};
  spec.parts = {{"model.gguf", 10'000}};
  spec.tensors = {{.name = "blk.0.attn_q.weight",
                   .type = kernels::QuantType::kF32,
                   .ne = {16, 8},
                   .part = 0,
                   .file_offset = 64,
                   .bytes = 512}};
  spec.context_length = 1024;
  spec.num_kv_blocks = 64;
  spec.max_rows = kFakeMaxRows;
  return spec;
}

// One sequence of rows that start with `first_token`; the last row is sampled.
inline std::shared_ptr<engine::MicroBatch> FakeBatch(uint64_t id, uint64_t epoch, int32_t rows = 1,
                                                     engine::TokenId first_token = 7) {
  auto batch = std::make_shared<engine::MicroBatch>();
  batch->id = id;
  batch->epoch = epoch;
  for (int32_t row = 0; row < rows; ++row)
    batch->tokens.push_back((first_token + row) % kFakeVocab);
  engine::SequenceRows sequence{
      .sequence_id = id, .first_position = 0, .num_rows = rows, .kv_blocks = {}};
  for (int32_t block = 0; block * engine::kKvBlockPositions < rows; ++block)
    sequence.kv_blocks.push_back(block);
  batch->sequences.push_back(std::move(sequence));
  batch->outputs.push_back({.row = rows - 1,
                            .kind = engine::OutputKind::kSample,
                            .target = engine::kNoToken,
                            .sampling = {},
                            .recent = {},
                            .output_counts = {},
                            .allowed = {}});
  return batch;
}

}  // namespace baton::testing
