#include "engine/runtime/stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "engine/arch/tensor_table.h"
#include "engine/gguf/split_writer.h"
#include "engine/runtime/local_pipeline.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"
#include "tests/support/tiny_model.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kContext = 64;
constexpr int32_t kBlocks = 2;

std::vector<TokenId> Prompt(int32_t vocab_size) {
  std::vector<TokenId> tokens(20);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<TokenId>(3 + i * 11) % vocab_size;
  return tokens;
}

MicroBatch BatchOf(const std::vector<TokenId>& tokens) {
  MicroBatch batch;
  batch.tokens = tokens;
  batch.sequences.push_back({.num_rows = batch.rows(), .kv_blocks = {0, 1}});
  batch.outputs.resize(1);
  batch.outputs[0].row = batch.rows() - 1;
  batch.outputs[0].kind = OutputKind::kLogits;
  return batch;
}

GgufModel OpenModel(const std::string& path) {
  auto model = GgufModel::Open(path);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

class StageTest : public ::testing::Test {
 protected:
  StageTest() : backend_(*MakeBackend({.device = "cpu", .threads = 1})) {}

  StageSpec SpecOf(const GgufModel& model, LayerRange layers) {
    const auto hyperparams = ParseHyperParams(model);
    auto spec = MakeStageSpec(model, *hyperparams, layers, kContext, kBlocks, 32, KvType::kF16);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *std::move(spec);
  }
  absl::StatusOr<std::unique_ptr<Stage>> Load(const StageSpec& spec,
                                              const std::string& models_dir) {
    return Stage::Load(spec, {.models_dir = models_dir, .progress = {}}, backend_.get());
  }
  // Logits after the last token of the prompt, by one stage per range, each with its own models
  // folder.
  std::vector<float> RunStages(const GgufModel& model, const std::vector<LayerRange>& ranges,
                               const std::vector<std::string>& folders) {
    HiddenStates hidden;
    StageOutput output;
    const MicroBatch batch = BatchOf(Prompt(ParseHyperParams(model)->vocab_size));
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto stage = Load(SpecOf(model, ranges[i]), folders[i]);
      EXPECT_TRUE(stage.ok()) << stage.status();
      if (!stage.ok()) return {};
      EXPECT_TRUE((*stage)->Run(batch, i == 0 ? nullptr : &hidden, &output).ok());
      std::swap(hidden, output.hidden);
    }
    return output.results[0].logits;
  }
  std::string WriteTiny(const testing::TinyModelOptions& options = {}) {
    const std::string path = dir_.File("tiny.gguf");
    EXPECT_TRUE(testing::WriteTinyModel(options, path).ok());
    return path;
  }

  testing::TempDir dir_;
  std::unique_ptr<Backend> backend_;
};

// What a request claims in all must not wrap into what fits.
TEST_F(StageTest, MemoryOfClaimsDoesNotWrap) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  StageSpec spec = SpecOf(OpenModel(WriteTiny()), {0, 5});
  spec.parts[0].bytes = uint64_t{1} << 62;
  const TensorPlacement claim{.name = "claim",
                              .type = kernels::QuantType::kF32,
                              .ne = {int64_t{1} << 30, int64_t{1} << 30},
                              .part = 0,
                              .file_offset = 0,
                              .bytes = uint64_t{1} << 62};
  spec.tensors.assign(5, claim);
  auto memory = Stage::MemoryOf(spec);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->weights_bytes, kMost);

  spec = SpecOf(OpenModel(WriteTiny()), {0, 5});
  spec.num_kv_blocks = std::numeric_limits<int32_t>::max();
  spec.max_rows = std::numeric_limits<int32_t>::max();
  memory = Stage::MemoryOf(spec);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->kv_bytes, uint64_t{1} << 40);
  EXPECT_GT(memory->scratch_bytes, uint64_t{1} << 40);
}

TEST_F(StageTest, KnowsItself) {
  const GgufModel model = OpenModel(WriteTiny());
  const StageSpec spec = SpecOf(model, {2, 5});
  const auto stage = Load(spec, dir_.path());
  ASSERT_TRUE(stage.ok()) << stage.status();
  EXPECT_FALSE((*stage)->first());
  EXPECT_TRUE((*stage)->last());
  EXPECT_EQ((*stage)->layers(), (LayerRange{2, 5}));
  EXPECT_EQ((*stage)->hyperparams().vocab_size, testing::kTinyVocabSize);
  EXPECT_EQ((*stage)->limits().context_length, kContext);
  uint64_t bytes = 0;
  for (const TensorPlacement& tensor : spec.tensors) bytes += tensor.bytes;
  EXPECT_EQ((*stage)->weights_bytes(), bytes);
  EXPECT_EQ((*stage)->kv_bytes(), 3u * kBlocks * 32 * 2 * (16 + 16) * 2);
}

TEST_F(StageTest, ReportsProgressToTheEnd) {
  const GgufModel model = OpenModel(WriteTiny({.tied = true}));
  for (const bool mlock : {false, true}) {
    uint64_t last = 0;
    uint64_t total = 0;
    const auto progress = [&](uint64_t done, uint64_t all) {
      EXPECT_GE(done, last);
      last = done;
      total = all;
      return true;
    };
    const auto stage = Stage::Load(
        SpecOf(model, {0, 5}), {.models_dir = dir_.path(), .mlock = mlock, .progress = progress},
        backend_.get());
    ASSERT_TRUE(stage.ok()) << stage.status();
    EXPECT_EQ(last, total);
    EXPECT_EQ(total, (*stage)->weights_bytes());
  }
}

TEST_F(StageTest, LoadingCanBeGivenUp) {
  const GgufModel model = OpenModel(WriteTiny());
  for (const bool mlock : {false, true}) {
    const auto stage = Stage::Load(
        SpecOf(model, {0, 5}),
        {.models_dir = dir_.path(), .mlock = mlock, .progress = [](auto, auto) { return false; }},
        backend_.get());
    EXPECT_TRUE(absl::IsCancelled(stage.status())) << stage.status();
  }
}

// Rows nobody asks for change nothing, nor do those beside them in the batch.
TEST_F(StageTest, WantedRowsAreThoseOfTheWholeBatch) {
  const GgufModel model = OpenModel(WriteTiny());
  const auto stage = Load(SpecOf(model, {0, 5}), dir_.path());
  ASSERT_TRUE(stage.ok()) << stage.status();
  MicroBatch all = BatchOf(Prompt(testing::kTinyVocabSize));
  all.outputs.assign(all.tokens.size(), all.outputs[0]);
  for (int32_t row = 0; row < all.rows(); ++row) all.outputs[row].row = row;
  StageOutput expected;
  ASSERT_TRUE((*stage)->Run(all, nullptr, &expected).ok());

  MicroBatch some = all;
  some.outputs = {all.outputs[0], all.outputs[3], all.outputs[4], all.outputs[19]};
  StageOutput output;
  ASSERT_TRUE((*stage)->Run(some, nullptr, &output).ok());
  ASSERT_EQ(output.results.size(), 4u);
  for (const RowResult& result : output.results) {
    EXPECT_TRUE(testing::SameBits(result.logits, expected.results[result.row].logits))
        << result.row;
  }
}

TEST_F(StageTest, SequencesOfABatchDoNotSeeEachOther) {
  const GgufModel model = OpenModel(WriteTiny());
  const auto stage = Load(SpecOf(model, {0, 5}), dir_.path());
  ASSERT_TRUE(stage.ok()) << stage.status();
  std::vector<TokenId> tokens = Prompt(testing::kTinyVocabSize);
  MicroBatch alone = BatchOf(tokens);
  alone.sequences[0].kv_blocks = {1};
  StageOutput expected;
  ASSERT_TRUE((*stage)->Run(alone, nullptr, &expected).ok());

  MicroBatch both = BatchOf(tokens);
  both.tokens.insert(both.tokens.begin(), {5, 6, 7});
  both.sequences = {{.sequence_id = 1, .num_rows = 3, .kv_blocks = {0}},
                    {.sequence_id = 2, .num_rows = 20, .kv_blocks = {1}}};
  both.outputs[0].row = 22;
  StageOutput output;
  ASSERT_TRUE((*stage)->Run(both, nullptr, &output).ok());
  EXPECT_TRUE(testing::SameBits(output.results[0].logits, expected.results[0].logits));
}

TEST_F(StageTest, GreedySamplesAndScoresComeFromTheSameLogits) {
  const GgufModel model = OpenModel(WriteTiny());
  const auto stage = Load(SpecOf(model, {0, 5}), dir_.path());
  ASSERT_TRUE(stage.ok()) << stage.status();
  MicroBatch batch = BatchOf(Prompt(testing::kTinyVocabSize));
  StageOutput logits;
  ASSERT_TRUE((*stage)->Run(batch, nullptr, &logits).ok());
  const auto best =
      std::ranges::max_element(logits.results[0].logits) - logits.results[0].logits.begin();

  batch.outputs[0].kind = OutputKind::kSample;
  batch.outputs[0].sampling.temperature = 0;
  batch.outputs[0].sampling.top_logprobs = 1;
  StageOutput sample;
  ASSERT_TRUE((*stage)->Run(batch, nullptr, &sample).ok());
  EXPECT_EQ(sample.results[0].token, best);

  batch.outputs[0].kind = OutputKind::kScore;
  batch.outputs[0].target = static_cast<TokenId>(best);
  StageOutput score;
  ASSERT_TRUE((*stage)->Run(batch, nullptr, &score).ok());
  EXPECT_EQ(score.results[0].logprob, sample.results[0].logprob);
}

// ---- Split sets
// -----------------------------------------------------------------------------------------------------

TEST_F(StageTest, SharedSplitSetEqualsItsSource) {
  SKIP_WITHOUT_TEST_DATA();
  const std::string root = testing::TestDataDir() + "/conformance/";
  const GgufModel source = OpenModel(root + "models/granite.gguf");
  const GgufModel split = OpenModel(root + "split/granite-split-00001-of-00003.gguf");
  const auto expected = RunStages(source, {{0, 2}}, {root + "models"});
  const auto logits = RunStages(split, {{0, 1}, {1, 2}}, {root + "split", root + "split"});
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(testing::SameBits(logits, expected));
}

// Indices of the tensors that each stage needs.
std::vector<std::vector<size_t>> TensorsOfStages(const GgufModel& model,
                                                 const std::vector<LayerRange>& ranges) {
  std::vector<std::vector<size_t>> stages;
  const auto hyperparams = ParseHyperParams(model);
  const auto find = [&](std::string_view name) { return model.FindTensor(name); };
  for (const LayerRange range : ranges) {
    std::vector<size_t>& needed = stages.emplace_back();
    const auto tensors = FindStageTensors(*hyperparams, range, find, "tiny");
    for (const FoundTensor& tensor : *tensors) {
      needed.push_back(static_cast<size_t>(tensor.info - model.tensors().data()));
    }
    std::ranges::sort(needed);
  }
  return stages;
}

TEST_F(StageTest, EachWorkerHasOnlyThePartsItNeeds) {
  const GgufModel whole = OpenModel(WriteTiny());
  const std::vector<LayerRange> ranges = {{0, 2}, {2, 4}, {4, 5}};
  const auto plan = SplitByStages(whole.tensors(), TensorsOfStages(whole, ranges));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto written = WriteSplit(whole, *plan, dir_.File("split"), {});
  ASSERT_TRUE(written.ok()) << written.status();
  const GgufModel split = OpenModel((*written)[0].path);

  const std::vector<testing::TempDir> folders(ranges.size());
  std::vector<std::string> paths;
  for (size_t i = 0; i < ranges.size(); ++i) {
    paths.push_back(folders[i].path());
    const StageSpec spec = SpecOf(split, ranges[i]);
    for (const TensorPlacement& tensor : spec.tensors) {
      const std::string& name = spec.parts[tensor.part].file_name;
      std::filesystem::copy(dir_.File(name), folders[i].File(name),
                            std::filesystem::copy_options::skip_existing);
    }
    const auto files = std::distance(std::filesystem::directory_iterator(paths[i]), {});
    EXPECT_LT(static_cast<size_t>(files), split.parts().size());
  }
  const auto expected = RunStages(whole, {{0, 5}}, {dir_.path()});
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(testing::SameBits(RunStages(split, ranges, paths), expected));
}

// ---- What a coordinator may send that is wrong
// ----------------------------------------------------------------------

struct BadSpec {
  const char* name;
  std::function<void(StageSpec&)> spoil;
  const char* says;
};

const BadSpec kBadSpecs[] = {
    {"NoHeader", [](StageSpec& s) { s.model_header.clear(); }, "model header"},
    {"HeaderCut", [](StageSpec& s) { s.model_header.resize(s.model_header.size() / 2); },
     "model header"},
    {"LayersBeyond", [](StageSpec& s) { s.layers.end = 6; }, "layers [0, 6)"},
    {"LayersEmpty",
     [](StageSpec& s) {
       s.layers = {2, 2};
     },
     "layers [2, 2)"},
    {"LayersNegative", [](StageSpec& s) { s.layers.begin = -1; }, "layers [-1, 5)"},
    {"ContextZero", [](StageSpec& s) { s.context_length = 0; }, "context 0"},
    {"BlocksNegative", [](StageSpec& s) { s.num_kv_blocks = -1; }, "-1 KV blocks"},
    {"TensorMissing", [](StageSpec& s) { s.tensors.erase(s.tensors.begin()); },
     "token_embd.weight: no such tensor"},
    {"TensorTwice", [](StageSpec& s) { s.tensors.push_back(s.tensors[0]); }, "twice"},
    {"TypeUndefined",
     [](StageSpec& s) { s.tensors[0].type = static_cast<kernels::QuantType>(777); }, "type id 777"},
    {"ShapeOther", [](StageSpec& s) { std::swap(s.tensors[0].ne[0], s.tensors[0].ne[1]); },
     "token_embd.weight"},
    {"ShapeEmpty", [](StageSpec& s) { s.tensors[0].ne.clear(); }, "0 dimensions"},
    {"ShapeNegative", [](StageSpec& s) { s.tensors[0].ne[1] = -4; }, "a dimension of -4"},
    {"ShapeOverflows",
     [](StageSpec& s) {
       s.tensors[0].ne = {1ll << 40, 1ll << 40, 1ll << 40};
     },
     "token_embd.weight"},
    {"BytesOther", [](StageSpec& s) { s.tensors[0].bytes += 1; }, "token_embd.weight"},
    {"PartUnknown", [](StageSpec& s) { s.tensors[0].part = 3; }, "part 3"},
    {"OffsetBeyond", [](StageSpec& s) { s.tensors[0].file_offset = ~0ull; }, "expected within"},
    {"OffsetOdd", [](StageSpec& s) { s.tensors[0].file_offset += 1; }, "multiple of"},
    {"FileElsewhere", [](StageSpec& s) { s.parts[0].file_name = "../tiny.gguf"; }, "../tiny.gguf"},
    {"FileMissing", [](StageSpec& s) { s.parts[0].file_name = "other.gguf"; }, "other.gguf"},
    {"FileOfAnotherSize", [](StageSpec& s) { s.parts[0].bytes += 32; }, "as the coordinator's"},
};

TEST_F(StageTest, BadSpecsAreRefused) {
  const GgufModel model = OpenModel(WriteTiny());
  const StageSpec good = SpecOf(model, {0, 5});
  for (const BadSpec& bad : kBadSpecs) {
    StageSpec spec = good;
    bad.spoil(spec);
    const auto stage = Load(spec, dir_.path());
    ASSERT_FALSE(stage.ok()) << bad.name;
    EXPECT_THAT(std::string(Message(stage.status())), HasSubstr(bad.says)) << bad.name;
  }
}

}  // namespace
}  // namespace baton::engine
