// A stage on CUDA, emulated, answers every kind of row as the CPU does, while it records its layers
// and leaves its logits on the device.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/backend/cuda_backend.h"
#include "engine/runtime/local_pipeline.h"
#include "tests/support/cuda_emulation.h"
#include "tests/support/emulated_cuda.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace baton::engine {
namespace {

// What a row may ask for.
struct AnswerRow {
  std::string name;
  std::function<void(OutputRow&)> ask;
};
std::vector<AnswerRow> Answers() {
  return {
      {"greedy", [](OutputRow& row) { row.sampling.temperature = 0; }},
      {"drawn", [](OutputRow& row) { row.sampling.seed = 5; }},
      {"drawn, logprobs",
       [](OutputRow& row) { row.sampling.seed = 6, row.sampling.top_logprobs = 7; }},
      {"nucleus of a flat row",
       [](OutputRow& row) { row.sampling.top_k = 0, row.sampling.top_p = 0.99f; }},
      {"whole row",
       [](OutputRow& row) {
         row.sampling = {.temperature = 3, .top_k = 0, .top_p = 1, .min_p = 0, .logit_bias = {}};
       }},
      {"penalties",
       [](OutputRow& row) {
         row.sampling.repetition_penalty = 1.5f;
         row.sampling.presence_penalty = 1;
         row.sampling.logit_bias = {{60, 3.0f}, {61, -2.0f}};
         row.recent = {3, 50, 50, 60, 7};
         row.output_counts = {{50, 2}, {60, 1}};
       }},
      {"masked",
       [](OutputRow& row) { row.allowed.assign((testing::kTinyVocabSize + 31) / 32, 0x00100100); }},
      {"score", [](OutputRow& row) { row.kind = OutputKind::kScore, row.target = 77; }},
      {"logits", [](OutputRow& row) { row.kind = OutputKind::kLogits; }},
  };
}

void ExpectSame(const RowResult& got, const RowResult& want) {
  EXPECT_EQ(got.row, want.row);
  EXPECT_EQ(got.token, want.token);
  EXPECT_EQ(got.logprob, want.logprob);
  EXPECT_EQ(got.logits, want.logits);
  ASSERT_EQ(got.top.size(), want.top.size());
  for (size_t i = 0; i < want.top.size(); ++i) {
    EXPECT_EQ(got.top[i].id, want.top[i].id);
    EXPECT_EQ(got.top[i].logprob, want.top[i].logprob);
  }
}

class CudaStageTest : public ::testing::Test {
 protected:
  CudaStageTest() {
    cuda_emulation::host.replays = 0;
    const std::string path = dir_.File("tiny.gguf");
    EXPECT_TRUE(testing::WriteTinyModel({.experts = true}, path).ok());
    model_ = *GgufModel::Open(path);
    on_cpu_ = Open(cpu_.get()), on_cuda_ = Open(cuda_.get());
  }
  ~CudaStageTest() override { cuda_emulation::host.records = true; }

  std::unique_ptr<LocalPipeline> Open(Backend* backend) {
    auto pipeline = LocalPipeline::Open(
        *model_, {.stages = {{0, 2}, {2, 5}}, .context_length = 128, .max_rows = 64}, backend);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return std::make_unique<LocalPipeline>(*std::move(pipeline));
  }
  // A batch of `rows` positions from `position` on, on both; they agree about every kind of answer,
  // or the first ones.
  void Step(int32_t position, int32_t rows, size_t kinds = 100) {
    MicroBatch batch;
    for (int32_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(3 + (position + i) * 37 % (testing::kTinyVocabSize - 3));
    }
    batch.sequences.push_back(
        {.first_position = position, .num_rows = rows, .kv_blocks = {2, 0, 3, 1}});
    for (const AnswerRow& answer : Answers()) {
      if (kinds-- == 0) break;
      OutputRow output;
      output.row = rows - 1;
      answer.ask(output);
      batch.outputs = {output};
      const auto want = on_cpu_->Run(batch);
      const auto got = on_cuda_->Run(batch);
      ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
      SCOPED_TRACE(fmt::format("position {}, {} rows, {}", position, rows, answer.name));
      ASSERT_EQ(got->size(), 1u);
      ExpectSame((*got)[0], (*want)[0]);
    }
  }

  testing::TempDir dir_;
  std::unique_ptr<Backend> cpu_ = *MakeBackend({.device = "cpu", .threads = 1});
  std::unique_ptr<Backend> cuda_ = *CudaBackend::Open(testing::EmulatedCuda(), 0);
  std::optional<GgufModel> model_;
  std::unique_ptr<LocalPipeline> on_cpu_, on_cuda_;
};

TEST_F(CudaStageTest, AnswersAsTheCpu) {
  Step(0, 1);
  Step(1, 5);
  Step(6, 1);
  // Two stages, each at one row and at five, from the second time on.
  EXPECT_GE(cuda_emulation::host.replays, 2 * 2 * (static_cast<int>(Answers().size()) - 1));
}

TEST_F(CudaStageTest, HiddenStatesLeaveWhileTheNextMicroBatchComputes) {
  const StageSpec spec =
      *MakeStageSpec(*model_, *ParseHyperParams(*model_), {0, 2}, 64, 8, 16, KvType::kF16);
  const auto stage = Stage::Load(spec, {.models_dir = dir_.path(), .progress = {}}, cuda_.get());
  const auto same = Stage::Load(spec, {.models_dir = dir_.path(), .progress = {}}, cpu_.get());
  ASSERT_TRUE(stage.ok() && same.ok()) << stage.status() << same.status();
  ASSERT_TRUE((*stage)->overlaps());
  ASSERT_FALSE((*same)->overlaps());
  std::vector<MicroBatch> batches(5);
  for (int32_t i = 0; i < 5; ++i) {
    batches[i].tokens = {10 + i, 60 + 2 * i, 33};
    batches[i].tokens.resize(i == 3 ? 1 : 3);  // one is smaller
    batches[i].sequences.push_back(
        {.first_position = 0, .num_rows = batches[i].rows(), .kv_blocks = {i}});
  }
  const auto finish = [&](const MicroBatch& batch) {
    StageOutput got, want;
    ASSERT_TRUE((*stage)->Finish(&got).ok());
    ASSERT_TRUE((*same)->Run(batch, nullptr, &want).ok());
    EXPECT_EQ(got.hidden.rows, want.hidden.rows);
    EXPECT_EQ(got.hidden.values, want.hidden.values);
  };
  for (int32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE((*stage)->Start(batches[i], nullptr).ok());
    if (i > 0) finish(batches[i - 1]);
  }
  finish(batches[4]);
  // What could not even be queued is said at the start, and leaves nothing to finish.
  cuda_emulation::host.next_error = cudaErrorInvalidValue;
  EXPECT_FALSE((*stage)->Start(batches[0], nullptr).ok());
  ASSERT_TRUE((*stage)->Start(batches[1], nullptr).ok());
  finish(batches[1]);
}

// Where every row wants output, logits are part of what is recorded.
TEST_F(CudaStageTest, RecordsTheOutputHead) {
  const auto decode = [&](LocalPipeline& pipeline, int32_t position) {
    MicroBatch batch;
    for (int32_t sequence : {0, 1}) {
      batch.tokens.push_back(5 + position + 40 * sequence);
      batch.sequences.push_back(
          {.first_position = position, .num_rows = 1, .kv_blocks = {sequence}});
      OutputRow& output = batch.outputs.emplace_back();
      output.row = sequence;
      output.sampling.temperature = 0;
    }
    return *pipeline.Run(batch);
  };
  int launches = 0;
  for (int32_t position = 0; position < 5; ++position) {
    const std::vector<RowResult> want = decode(*on_cpu_, position);
    launches = -cuda_emulation::launches;
    const std::vector<RowResult> got = decode(*on_cuda_, position);
    launches += cuda_emulation::launches;
    ASSERT_EQ(got.size(), 2u);
    for (size_t i : {0, 1}) ExpectSame(got[i], want[i]);
  }
  EXPECT_EQ(cuda_emulation::host.replays, 2 * 3);
  EXPECT_LE(launches, 6);  // the embedding, hidden states set aside, best logits
}

TEST_F(CudaStageTest, MemoryThatMovesEndsRecordings) {
  Step(0, 2, 6);
  const int replays = cuda_emulation::host.replays;
  EXPECT_GT(replays, 0);
  Step(2, 60, 1);  // more rows than before, and too many to record
  EXPECT_EQ(cuda_emulation::host.replays, replays);
  Step(62, 2, 6);
  EXPECT_GT(cuda_emulation::host.replays, replays);
}

TEST_F(CudaStageTest, GoesOnWhereNothingCanBeRecorded) {
  cuda_emulation::host.records = false;
  Step(0, 2, 4);
  Step(2, 1, 2);
  EXPECT_EQ(cuda_emulation::host.replays, 0);
}

}  // namespace
}  // namespace baton::engine
