#include "engine/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// No filter, temperature 1.
SamplingParams Plain() {
  SamplingParams params;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

TokenId SampleId(const std::vector<float>& logits, const SamplingParams& params,
                 uint64_t position = 0) {
  const auto sampled = Sample({.logits = logits, .position = position}, params);
  EXPECT_TRUE(sampled.ok()) << sampled.status();
  return sampled.ok() ? sampled->id : kNoToken;
}

std::set<TokenId> Drawn(const std::vector<float>& logits, const SamplingParams& params) {
  std::set<TokenId> ids;
  for (uint64_t position = 0; position < 500; ++position)
    ids.insert(SampleId(logits, params, position));
  return ids;
}

TEST(SamplerTest, ZeroAndTinyTemperaturesTakeTheFirstOfTheBest) {
  for (const float temperature : {0.0f, 1e-6f, 1e-38f}) {
    SamplingParams params = Plain();
    params.temperature = temperature;
    EXPECT_EQ(Drawn({1, 3, 3, 2}, params), (std::set<TokenId>{1})) << temperature;
  }
  SamplingParams params = Plain();
  params.temperature = 2e-5f;  // divides by it: no overflow either
  EXPECT_EQ(Drawn({1, 30, 3, 2}, params), (std::set<TokenId>{1}));
}

TEST(SamplerTest, TopKAtItsEnds) {
  const std::vector<float> logits = {0, 0.3f, 0.1f, 0.2f};
  for (const int32_t off : {0, -1, 4, 9}) {
    SamplingParams params = Plain();
    params.top_k = off;
    EXPECT_EQ(Drawn(logits, params), (std::set<TokenId>{0, 1, 2, 3})) << off;
  }
  SamplingParams params = Plain();
  params.top_k = 1;
  EXPECT_EQ(Drawn(logits, params), (std::set<TokenId>{1}));
  params.top_k = 2;
  EXPECT_EQ(Drawn(logits, params), (std::set<TokenId>{1, 3}));
  EXPECT_EQ(Drawn({1, 1, 1, 1}, params), (std::set<TokenId>{0, 1}));  // ties: the lower ids
}

TEST(SamplerTest, TopPAtItsEnds) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.3f),
                                     std::log(0.1f)};
  const std::pair<float, std::set<TokenId>> cases[] = {
      {1.0f, {0, 1, 2, 3}}, {0.0f, {1}},     {1e-9f, {1}},
      {0.45f, {1}},         {0.75f, {1, 2}}, {0.85f, {0, 1, 2}},
  };
  for (const auto& [top_p, expected] : cases) {
    SamplingParams params = Plain();
    params.top_p = top_p;
    EXPECT_EQ(Drawn(logits, params), expected) << top_p;
  }
}

TEST(SamplerTest, MinP) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.3f),
                                     std::log(0.1f)};
  const std::pair<float, std::set<TokenId>> cases[] = {
      {0.1f, {0, 1, 2, 3}}, {0.25f, {1, 2}}, {0.7f, {1}}, {1.0f, {1}}};
  for (const auto& [min_p, expected] : cases) {
    SamplingParams params = Plain();
    params.min_p = min_p;
    EXPECT_EQ(Drawn(logits, params), expected) << min_p;
  }
}

TEST(SamplerTest, DrawsInProportion) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  std::map<TokenId, int> counts;
  constexpr int kDraws = 8000;
  for (uint64_t position = 0; position < kDraws; ++position)
    ++counts[SampleId(logits, Plain(), position)];
  EXPECT_NEAR(counts[0], kDraws / 8, 100);
  EXPECT_NEAR(counts[1], kDraws / 4, 150);
  EXPECT_NEAR(counts[2], kDraws * 5 / 8, 200);

  SamplingParams hot = Plain();
  hot.temperature = 2;  // weights 1, sqrt 2, sqrt 5
  counts.clear();
  for (uint64_t position = 0; position < kDraws; ++position)
    ++counts[SampleId(logits, hot, position)];
  EXPECT_NEAR(counts[0], kDraws / 4.65, 150);
}

TEST(SamplerTest, DependsOnSeedAndPositionOnly) {
  std::vector<float> logits(100);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 37) % 100) / 50;
  SamplingParams params = Plain();
  params.seed = 11;
  std::vector<TokenId> first, again, other;
  for (uint64_t position = 0; position < 20; ++position)
    first.push_back(SampleId(logits, params, position));
  for (uint64_t position = 0; position < 20; ++position)
    again.push_back(SampleId(logits, params, position));
  params.seed = 12;
  for (uint64_t position = 0; position < 20; ++position)
    other.push_back(SampleId(logits, params, position));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(SamplerTest, PenaltiesAndBias) {
  const std::vector<float> logits = {2, 1.9f, -1, -1.1f};
  SamplingParams params = Plain();
  params.temperature = 0;
  const std::vector<TokenId> recent = {0, 0, 0};

  params.repetition_penalty = 1.1f;  // once a token, however often it came: 2 / 1.1 < 1.9
  EXPECT_EQ(Sample({.logits = logits, .recent = recent}, params)->id, 1);
  params.repetition_penalty = 1.01f;
  EXPECT_EQ(Sample({.logits = logits, .recent = recent}, params)->id, 0);
  std::vector<TokenId> long_ago(65, 3);
  long_ago[0] = 0;  // outside the window
  params.repetition_penalty = 2;
  EXPECT_EQ(Sample({.logits = logits, .recent = long_ago}, params)->id, 0);
  params.repetition_penalty = 1;

  const std::vector<std::pair<TokenId, int32_t>> counts = {{0, 3}};
  params.presence_penalty = 0.2f;
  EXPECT_EQ(Sample({.logits = logits, .output_counts = counts}, params)->id, 1);
  params.presence_penalty = 0;
  params.frequency_penalty = 0.04f;
  EXPECT_EQ(Sample({.logits = logits, .output_counts = counts}, params)->id, 1);
  params.frequency_penalty = 0.03f;
  EXPECT_EQ(Sample({.logits = logits, .output_counts = counts}, params)->id, 0);
  params.frequency_penalty = 0;

  params.logit_bias = {{3, 50.0f}};
  EXPECT_EQ(SampleId(logits, params), 3);
  params.logit_bias = {{4, 1.0f}};
  EXPECT_THAT(Sample({.logits = logits}, params).status().ToString(), HasSubstr("token 4"));
}

TEST(SamplerTest, GrammarMask) {
  std::vector<float> logits(40, 0.0f);
  logits[5] = 9;
  std::vector<uint32_t> allowed = {0, 1u << 3};
  EXPECT_EQ(Sample({.logits = logits, .allowed = allowed}, Plain())->id, 35);
  SamplingParams biased = Plain();
  biased.logit_bias = {{5, 100.0f}};  // the mask is stronger
  EXPECT_EQ(Sample({.logits = logits, .allowed = allowed}, biased)->id, 35);
  allowed[1] = 0;
  EXPECT_EQ(Sample({.logits = logits, .allowed = allowed}, Plain()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  allowed.pop_back();
  EXPECT_FALSE(Sample({.logits = logits, .allowed = allowed}, Plain()).ok());
}

TEST(SamplerTest, Logprobs) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), std::log(0.3f),
                                     std::log(0.1f)};
  SamplingParams params = Plain();
  params.temperature = 0;
  params.top_logprobs = 3;
  params.logit_bias = {{2, 5.0f}};  // chooses, but the model's probabilities stay
  const auto sampled = Sample({.logits = logits}, params);
  ASSERT_TRUE(sampled.ok());
  EXPECT_EQ(sampled->id, 2);
  EXPECT_NEAR(sampled->logprob, std::log(0.3f), 1e-6);
  ASSERT_EQ(sampled->top.size(), 3u);
  EXPECT_EQ(sampled->top[0].id, 1);
  EXPECT_EQ(sampled->top[1].id, 2);
  EXPECT_EQ(sampled->top[2].id, 0);
  EXPECT_NEAR(sampled->top[0].logprob, std::log(0.5f), 1e-6);
  EXPECT_NEAR(LogProbability(logits, 3), std::log(0.1f), 1e-6);
  params.top_logprobs = 0;
  EXPECT_TRUE(Sample({.logits = logits}, params)->top.empty());
  params.top_logprobs = 100;
  EXPECT_EQ(Sample({.logits = logits}, params)->top.size(), 4u);
}

TEST(SamplerTest, RefusesLogitsThatAreNoNumbers) {
  EXPECT_FALSE(Sample({.logits = std::vector<float>{1, kNan}}, Plain()).ok());
  EXPECT_FALSE(Sample({.logits = std::vector<float>{1, kInf}}, Plain()).ok());
  EXPECT_FALSE(Sample({.logits = std::vector<float>{}}, Plain()).ok());
  EXPECT_EQ(SampleId({-kInf, 1, -kInf}, Plain()), 1);
}

TEST(SamplerTest, ExtremeParametersStillDraw) {
  const std::vector<float> logits = {3e38f, 1, -3e38f, -kInf};
  const std::vector<TokenId> recent = {0, 1, 2, 3, -1, 99};
  const std::vector<std::pair<TokenId, int32_t>> counts = {{0, 1 << 30}, {3, 5}, {-1, 1}, {99, 1}};
  for (const float extreme : {-3e38f, 3e38f}) {
    SamplingParams params = Plain();
    params.repetition_penalty = 1e-38f;
    params.presence_penalty = params.frequency_penalty = extreme;
    params.logit_bias = {{0, 3e38f}, {1, extreme}};
    for (const float top_p : {0.0f, 0.5f, 1.0f}) {
      params.top_p = top_p;
      const auto sampled =
          Sample({.logits = logits, .recent = recent, .output_counts = counts}, params);
      ASSERT_TRUE(sampled.ok()) << sampled.status();
      EXPECT_NE(sampled->id, 3);
    }
  }
}

TEST(SamplerTest, ValidationNamesTheParameter) {
  struct Case {
    const char* name;
    float SamplingParams::*field;
    std::vector<float> good, bad;
  };
  const Case cases[] = {
      {"temperature", &SamplingParams::temperature, {0, 1e-38f, 2}, {-1, kNan, kInf}},
      {"top_p", &SamplingParams::top_p, {0, 1e-9f, 1}, {1.1f, -0.1f, kNan}},
      {"min_p", &SamplingParams::min_p, {0, 1}, {1.1f, -0.1f, kNan}},
      {"repetition_penalty", &SamplingParams::repetition_penalty, {0.5f, 2}, {0, -1, kNan, kInf}},
      {"presence_penalty", &SamplingParams::presence_penalty, {-2, 2}, {kNan, kInf}},
      {"frequency_penalty", &SamplingParams::frequency_penalty, {-2, 2}, {kNan, -kInf}},
  };
  for (const Case& c : cases) {
    for (const float value : c.good) {
      SamplingParams params;
      params.*c.field = value;
      EXPECT_TRUE(ValidateSamplingParams(params).ok()) << c.name << " " << value;
    }
    for (const float value : c.bad) {
      SamplingParams params;
      params.*c.field = value;
      const absl::Status status = ValidateSamplingParams(params);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.name << " " << value;
      EXPECT_THAT(status.ToString(), HasSubstr(c.name));
    }
  }
  for (const int32_t top_k : {0, -1, 1, 1 << 30}) {
    SamplingParams params;
    params.top_k = top_k;
    EXPECT_TRUE(ValidateSamplingParams(params).ok()) << top_k;
  }
  SamplingParams params;
  params.logit_bias = {{7, kNan}};
  EXPECT_THAT(ValidateSamplingParams(params).ToString(), HasSubstr("token 7"));
}

// A large vocabulary under all settings: the same ids on every machine. The numbers came from this
// code; what counts is that they never change.
TEST(SamplerTest, LargeVocabulary) {
  std::vector<float> logits(150000);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 2654435761u) % 100003) / 5000.0f;
  }
  std::vector<TokenId> ids;
  for (const int32_t top_k : {0, 40}) {
    for (const float top_p : {0.5f, 1.0f}) {
      SamplingParams params = Plain();
      params.top_k = top_k;
      params.top_p = top_p;
      params.seed = 3;
      params.top_logprobs = 2;
      ids.push_back(SampleId(logits, params, 1000));
    }
  }
  EXPECT_EQ(ids, (std::vector<TokenId>{77924, 66187, 63814, 139691}));
}

}  // namespace
}  // namespace baton::engine
