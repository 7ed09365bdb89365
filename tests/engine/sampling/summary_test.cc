// A token drawn from a summary of a row of logits is the one that the row gives.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"
#include "tests/support/reference_summary.h"

namespace baton::engine {
namespace {

constexpr int32_t kVocabSize = 1500;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Row {
  std::string name;
  std::vector<float> logits;
};
std::vector<Row> Rows() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Row peaked{"peaked", {}}, flat{"flat", {}}, ties{"ties", {}}, masked{"masked", {}};
  for (int32_t i = 0; i < kVocabSize; ++i) {
    peaked.logits.push_back(normal(random) * 4);
    flat.logits.push_back(normal(random) * 0.1f);
    ties.logits.push_back(std::round(normal(random) * 3));
    masked.logits.push_back(i % 97 == 5 ? normal(random) : -kInfinity);
  }
  ties.logits[0] = -0.0f;
  return {peaked, flat, ties, masked};
}

struct ParamsRow {
  std::string name;
  SamplingParams params;
  int least_answers = 4;  // of the rows above
};
SamplingParams With(float temperature, int32_t top_k, float top_p, float min_p) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}
std::vector<ParamsRow> AllParams() {
  std::vector<ParamsRow> rows = {{"defaults", {}},
                                 {"greedy", With(0, 0, 1, 0)},
                                 {"top-k", With(1, 50, 1, 0)},
                                 {"one", With(1, 1, 1, 0)},
                                 {"top-p", With(0.7f, 0, 0.9f, 0), 2},
                                 {"min-p", With(1.5f, 0, 1, 0.3f), 2},
                                 {"all filters", With(1, 100, 0.8f, 0.02f)},
                                 {"whole row", With(1, 0, 1, 0), 0},
                                 {"too many", With(1, 300, 0.9f, 0), 0},
                                 {"more than there are", With(1, 5000, 0.5f, 0), 2}};
  for (const int32_t top_k : {0, 40}) {
    SamplingParams params = With(0.8f, top_k, 0.95f, 0.05f);
    params.repetition_penalty = 1.3f;
    params.presence_penalty = 0.4f;
    params.frequency_penalty = 0.3f;
    params.logit_bias = {{7, 3.0f}, {1200, 50.0f}, {9, -3e38f}, {8, -100.0f}};
    rows.push_back({"adjusted", params, top_k > 0 ? 4 : 0});
    params.temperature = 0;
    rows.push_back({"adjusted and greedy", params});
  }
  const size_t count = rows.size();
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(rows[i]);
    rows.back().name += ", logprobs";
    rows.back().params.top_logprobs = static_cast<int32_t>(i % 4) * 5;
  }
  return rows;
}

TEST(SummaryTest, GivesTheRowsTokens) {
  const std::vector<TokenId> recent = {5, 5, 102, 9, -1, 1499, 99999};
  const std::vector<std::pair<TokenId, int32_t>> counts = {{5, 3}, {102, 1}, {700, 9}, {-4, 2}};
  const std::vector<Row> rows = Rows();
  for (const ParamsRow& p : AllParams()) {
    int answers = 0;
    for (const Row& row : rows) {
      SCOPED_TRACE(p.name + ", " + row.name);
      for (uint64_t position = 0; position < 12; ++position) {
        const SamplingInput input{
            .logits = row.logits, .position = position, .recent = recent, .output_counts = counts};
        const auto want = Sample(input, p.params);
        ASSERT_TRUE(want.ok()) << want.status();
        const auto question = QuestionFor(input, p.params, kVocabSize);
        if (!question.has_value()) continue;
        const LogitSummary summary = testing::ReferenceSummary(row.logits, *question);
        const auto got = Sample(summary, *question, input, p.params, kVocabSize);
        ASSERT_TRUE(got.ok()) << got.status();
        if (!got->has_value()) continue;
        answers += position == 0;
        EXPECT_EQ((*got)->id, want->id);
        EXPECT_EQ((*got)->logprob, want->logprob);
        ASSERT_EQ((*got)->top.size(), want->top.size());
        for (size_t i = 0; i < want->top.size(); ++i) {
          EXPECT_EQ((*got)->top[i].id, want->top[i].id);
          EXPECT_EQ((*got)->top[i].logprob, want->top[i].logprob);
        }
      }
    }
    EXPECT_GE(answers, p.least_answers) << p.name;
    if (p.least_answers == 0) {
      EXPECT_EQ(answers, 0) << p.name;
    }
  }
}

TEST(SummaryTest, Scores) {
  for (const Row& row : Rows()) {
    for (const TokenId target : {5, 102, 1499}) {
      const LogitSummary summary = testing::ReferenceSummary(row.logits, QuestionForScore(target));
      EXPECT_EQ(LogProbability(summary), LogProbability(row.logits, target)) << row.name;
    }
  }
}

TEST(SummaryTest, TheRowIsNeededWhereASummaryWouldNotDo) {
  std::vector<float> logits(64, 0.0f);
  const std::vector<uint32_t> allowed = {1, 0};
  EXPECT_FALSE(QuestionFor({.logits = logits, .allowed = allowed}, {}, 64).has_value());
  SamplingParams params;
  params.logit_bias = {{64, 1.0f}};  // an error, that the row's own path tells
  EXPECT_FALSE(QuestionFor({.logits = logits}, params, 64).has_value());
  logits[3] = kInfinity;
  const auto question = QuestionFor({.logits = logits}, {}, 64);
  const auto broken =
      Sample(testing::ReferenceSummary(logits, *question), *question, {.logits = logits}, {}, 64);
  EXPECT_TRUE(broken.ok() && !broken->has_value());
  logits.assign(64, -kInfinity);
  const auto none =
      Sample(testing::ReferenceSummary(logits, *question), *question, {.logits = logits}, {}, 64);
  EXPECT_EQ(none.status(), Sample({.logits = logits}, {}).status());
}

}  // namespace
}  // namespace baton::engine
