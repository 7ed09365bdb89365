// Published models against exact arithmetic: greedy tokens with their margins, and logits of the
// first and last row.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/runtime/local_pipeline.h"
#include "tests/support/real_model.h"
#include "tests/support/reference_files.h"
#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

using nlohmann::json;

// Error and power of rows whose means are taken away: what softmax sees.
struct CentredError {
  double error = 0;
  double power = 0;

  void AddRow(std::span<const float> ours, std::span<const float> exact) {
    const auto mean = [](std::span<const float> row) {
      return std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
    };
    const double our_mean = mean(ours);
    const double exact_mean = mean(exact);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double difference = (ours[i] - our_mean) - (exact[i] - exact_mean);
      error += difference * difference;
      power += (exact[i] - exact_mean) * (exact[i] - exact_mean);
    }
  }
};

struct RealCase {
  const json& test;
  std::vector<float>
      logits;  // [tokens + 1, vocab_size]: after the prompt, then after each new token
  size_t vocab_size;

  std::span<const float> Row(size_t row) const {
    return std::span(logits).subspan(row * vocab_size, vocab_size);
  }
};

// The prompt and the given continuation in chunks: the same bits as one token after another.
RealCase RunCase(LocalPipeline& pipeline, const json& test) {
  auto tokens = test["prompt_tokens"].get<std::vector<TokenId>>();
  const size_t first_wanted = tokens.size() - 1;
  for (const TokenId token : test["tokens"]) tokens.push_back(token);
  pipeline.Reset();
  const auto logits = pipeline.Feed(tokens, first_wanted, 64);
  EXPECT_TRUE(logits.ok()) << logits.status();
  return {test, *logits, static_cast<size_t>(pipeline.hyperparams().vocab_size)};
}

void CheckGreedy(const RealCase& run) {
  const auto tokens = run.test["tokens"].get<std::vector<TokenId>>();
  const auto margins = run.test["margins"].get<std::vector<double>>();
  int same = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = run.Row(i);
    const auto argmax = static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
    same += argmax == tokens[i];
    if (margins[i] <= run.test["limits"]["margin"].get<double>()) continue;
    EXPECT_EQ(argmax, tokens[i]) << "token " << i;
  }
  EXPECT_GE(same, run.test["limits"]["same_argmax"].get<int>());
}

void CheckLogits(const RealCase& run, const std::string& folder, const std::string& kv) {
  const std::string file = run.test["logits"];
  const std::vector<float> exact = testing::ReadFloats(folder + file);
  CentredError sum;
  sum.AddRow(run.Row(0), std::span(exact).first(run.vocab_size));
  sum.AddRow(run.Row(run.test["tokens"].size()), std::span(exact).last(run.vocab_size));
  const double nmse = sum.error / sum.power;
  const double limit = run.test["limits"]["nmse_" + kv];
  const double theirs = run.test["llamacpp"]["nmse_" + kv];
  fmt::print("nmse real/{} greedy_{} {:.4e} {:.4e} {:.4e}\n", file, kv, nmse, theirs, limit);
  EXPECT_LE(nmse, limit);
}

absl::StatusOr<LocalPipeline> OpenPipeline(const GgufModel& model, KvType kv_type,
                                           Backend* backend) {
  return LocalPipeline::Open(model, {.context_length = 2048, .kv_type = kv_type, .max_rows = 64},
                             backend);
}

class RealModelTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RealModelTest, ExactGreedyTokensAndLogits) {
  SKIP_WITHOUT_TEST_DATA();
  const std::string folder = testing::TestDataDir() + "/conformance/real/";
  const json description = testing::ReadJson(folder + GetParam() + ".json");
  const std::string path = testing::RealModelPath(std::string(GetParam()) + ".gguf");
  if (path.empty())
    GTEST_SKIP() << GetParam() << " is not in the cache: scripts/fetch_model.sh gets it";
  const auto model = GgufModel::Open(path);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto backend = MakeBackend({.device = "cpu"});
  ASSERT_TRUE(backend.ok()) << backend.status();
  for (const KvType kv_type : {KvType::kF32, KvType::kF16}) {
    auto pipeline = OpenPipeline(*model, kv_type, backend->get());
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    for (const json& test : description["cases"]) {
      const RealCase run = RunCase(*pipeline, test);
      CheckGreedy(run);
      CheckLogits(run, folder, kv_type == KvType::kF32 ? "kv_f32" : "kv_f16");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealModelTest,
                         ::testing::Values("SmolLM2-135M-Instruct.Q4_1", "gemma-3-270m-q4_k_m"),
                         [](const auto& test) { return test.index == 0 ? "SmolLM2" : "Gemma3"; });

// The same for those who have no shared data: ids and margins only.
TEST(SmallRealModelTest, GreedyTokens) {
  const json description = testing::ReadJson(BATON_TEST_FOLDER "/data/smollm2_greedy.json");
  const std::string path = testing::RealModelPath(description["model"].get<std::string>());
  if (path.empty())
    GTEST_SKIP() << "SmolLM2 is not in the cache: scripts/fetch_model.sh smollm2 gets it";
  const auto model = GgufModel::Open(path);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto backend = MakeBackend({.device = "cpu"});
  ASSERT_TRUE(backend.ok()) << backend.status();
  auto pipeline = OpenPipeline(*model, KvType::kF16, backend->get());
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  for (const json& test : description["cases"]) CheckGreedy(RunCase(*pipeline, test));
}

}  // namespace
}  // namespace baton::engine
