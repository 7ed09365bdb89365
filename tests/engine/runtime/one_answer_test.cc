// The same bits however a model is run: stages, chunks of the prompt, threads, instruction sets and
// CUDA are nobody's business.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/arch/arch_spec.h"
#include "engine/arch/supported.h"
#include "engine/backend/cuda_backend.h"
#include "engine/runtime/local_pipeline.h"
#include "kernels/cpu/dispatch.h"
#include "tests/support/cuda_emulation.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tested_cuda.h"
#include "tests/support/tiny_model.h"

namespace baton::engine {
namespace {

using testing::TinyModelOptions;

constexpr int kTwoBlocks = 40;  // two KV blocks, the second not full

std::vector<TokenId> TwoBlockPrompt() {
  std::vector<TokenId> tokens(kTwoBlocks);
  for (int i = 0; i < kTwoBlocks; ++i)
    tokens[i] = 3 + (i * 37 + i * i) % (testing::kTinyVocabSize - 3);
  return tokens;
}

// How to run a model: none of it may change a bit.
struct Manner {
  int32_t stages = 1;
  int32_t chunk = 0;  // 0: the whole prompt
  int threads = 1;
  std::string isa = "";  // "": the best
  bool cuda = false;     // emulated, its threads in reverse order
};

std::unique_ptr<Backend> BackendFor(const Manner& manner) {
  if (manner.cuda) {
    cuda_emulation::SetThreadOrder(cuda_emulation::ThreadOrder::kReverse);
    auto cuda = CudaBackend::Open(testing::TestedCuda(), 0);
    EXPECT_TRUE(cuda.ok()) << cuda.status();
    return cuda.ok() ? *std::move(cuda) : nullptr;
  }
  setenv("BATON_ISA", manner.isa.c_str(), 1);
  auto backend = MakeBackend({.device = "cpu", .threads = manner.threads});
  unsetenv("BATON_ISA");
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

std::vector<float> LogitsOf(const GgufModel& model, const Manner& manner, KvType kv_type) {
  const auto backend = BackendFor(manner);
  if (backend == nullptr) return {};
  const auto hyperparams = ParseHyperParams(model);
  auto pipeline = LocalPipeline::Open(model,
                                      {.stages = EvenStages(hyperparams->num_layers, manner.stages),
                                       .context_length = 128,
                                       .kv_type = kv_type,
                                       .max_rows = kTwoBlocks},
                                      backend.get());
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  if (!pipeline.ok()) return {};
  const auto logits = pipeline->Feed(TwoBlockPrompt(), 0, manner.chunk);
  EXPECT_TRUE(logits.ok()) << logits.status();
  return logits.ok() ? *logits : std::vector<float>();
}

// One of each at least; together they are few, since every model of the tables goes through all of
// them.
std::vector<Manner> Manners() {
  std::vector<Manner> manners = {{.stages = 2, .chunk = 1},
                                 {.stages = 3, .chunk = 7, .threads = 2},
                                 {.stages = 5, .chunk = 32}};
  for (const kernels::Isa& isa : kernels::KnownIsas()) {
    if (isa.supported) manners.push_back({.isa = isa.name});
  }
  return manners;
}

// Emulated threads are slow: one manner for each model of the tables. Chunks that are alike have
// their layers recorded and replayed; a large one has its experts' rows grouped.
std::vector<Manner> AlikeOnCuda() { return {{.stages = 2, .chunk = 9, .cuda = true}}; }
std::vector<Manner> LargeOnCuda() { return {{.stages = 2, .chunk = 38, .cuda = true}}; }

void ExpectOneAnswer(const TinyModelOptions& options, KvType kv_type,
                     const std::vector<Manner>& manners) {
  const testing::TempDir dir;
  const std::string path = dir.File("tiny.gguf");
  ASSERT_TRUE(testing::WriteTinyModel(options, path).ok())
      << testing::WriteTinyModel(options, path);
  const auto model = GgufModel::Open(path);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(CheckSupported(*model).ok()) << CheckSupported(*model);

  const std::vector<float> expected = LogitsOf(*model, {}, kv_type);
  ASSERT_EQ(expected.size(), static_cast<size_t>(kTwoBlocks) * testing::kTinyVocabSize);
  for (const float logit : expected) ASSERT_TRUE(std::isfinite(logit));
  EXPECT_NE(std::memcmp(&expected[0], &expected[testing::kTinyVocabSize], 64), 0)
      << "rows all alike";
  for (const Manner& manner : manners) {
    EXPECT_TRUE(testing::SameBits(LogitsOf(*model, manner, kv_type), expected))
        << manner.stages << " stages, chunk " << manner.chunk << ", " << manner.threads
        << " threads, isa '" << manner.isa << "'" << (manner.cuda ? ", cuda" : "");
  }
}

class ArchitectureTest : public ::testing::TestWithParam<std::string_view> {
 protected:
  const ArchSpec& spec() const { return *FindArchSpec(GetParam()); }
};

std::vector<std::string_view> ArchitectureNames() {
  std::vector<std::string_view> names;
  for (const ArchSpec& spec : AllArchSpecs()) names.push_back(spec.name);
  return names;
}

TEST_P(ArchitectureTest, RequiredTensors) {
  ExpectOneAnswer({.architecture = GetParam(), .tied = true}, KvType::kF16, Manners());
}

TEST_P(ArchitectureTest, AllTensors) {
  ExpectOneAnswer({.architecture = GetParam(), .optional_tensors = true}, KvType::kF32, Manners());
}

TEST_P(ArchitectureTest, Experts) {
  if (spec().gate != GateKind::kSplit) GTEST_SKIP() << "experts are gated";
  ExpectOneAnswer({.architecture = GetParam(), .experts = true}, KvType::kF16, Manners());
}

TEST_P(ArchitectureTest, AllTensorsOnCuda) {
  ExpectOneAnswer({.architecture = GetParam(), .optional_tensors = true}, KvType::kF32,
                  AlikeOnCuda());
}

TEST_P(ArchitectureTest, ExpertsOnCuda) {
  if (spec().gate != GateKind::kSplit) GTEST_SKIP() << "experts are gated";
  ExpectOneAnswer({.architecture = GetParam(), .experts = true}, KvType::kF16, LargeOnCuda());
}

INSTANTIATE_TEST_SUITE_P(Table, ArchitectureTest, ::testing::ValuesIn(ArchitectureNames()),
                         [](const auto& test) {
                           std::string name(test.param);
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

class WeightTypeTest : public ::testing::TestWithParam<int> {};

TEST_P(WeightTypeTest, OneAnswer) {
  const auto type = static_cast<kernels::QuantType>(GetParam());
  ExpectOneAnswer({.type = type, .hidden_size = 256}, KvType::kF16, Manners());
}

TEST_P(WeightTypeTest, OneAnswerOnCuda) {
  const auto type = static_cast<kernels::QuantType>(GetParam());
  ExpectOneAnswer({.type = type, .num_layers = 2, .hidden_size = 256}, KvType::kQ8_0,
                  LargeOnCuda());
}

std::vector<int> TypesWithKernels() {
  std::vector<int> types;
  for (int id = 0; id < kernels::kNumQuantTypes; ++id) {
    if (kernels::kQuantTraits[id].activation != kernels::ActivationFormat::kNone)
      types.push_back(id);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Table, WeightTypeTest, ::testing::ValuesIn(TypesWithKernels()),
                         [](const auto& test) {
                           return std::string(kernels::kQuantTraits[test.param].name);
                         });

}  // namespace
}  // namespace baton::engine
