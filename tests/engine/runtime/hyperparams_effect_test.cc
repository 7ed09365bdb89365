// What a file says of its model shows in the logits: a hyperparameter that is read and then
// forgotten gives plausible but wrong text.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/supported.h"
#include "engine/runtime/local_pipeline.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace baton::engine {
namespace {

using testing::kTinyVocabSize;
using testing::TinyModelOptions;
using Edit = std::function<void(GgufWriter&)>;

constexpr int kPromptTokens = 9;

std::vector<TokenId> Prompt() { return {10, 47, 86, 127, 170, 215, 262, 31, 84}; }

// Logits of each row of the prompt: [kPromptTokens, kTinyVocabSize].
std::vector<float> LogitsOf(TinyModelOptions options, const Edit& edit,
                            std::span<const TokenId> prompt) {
  const testing::TempDir dir;
  const std::string path = dir.File("tiny.gguf");
  options.edit = edit;
  EXPECT_TRUE(testing::WriteTinyModel(options, path).ok());
  const auto model = GgufModel::Open(path);
  EXPECT_TRUE(model.ok() && CheckSupported(*model).ok()) << CheckSupported(*model);
  const auto backend = MakeBackend({.device = "cpu", .threads = 1});
  auto pipeline = LocalPipeline::Open(*model,
                                      {.stages = EvenStages(options.num_layers, 1),
                                       .context_length = 32,
                                       .kv_type = KvType::kF32,
                                       .max_rows = kPromptTokens},
                                      backend->get());
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  const auto logits = pipeline->Feed(prompt, 0, 0);
  EXPECT_TRUE(logits.ok()) << logits.status();
  return *logits;
}

std::span<const float> Row(const std::vector<float>& logits, int row) {
  return std::span(logits).subspan(static_cast<size_t>(row) * kTinyVocabSize, kTinyVocabSize);
}

void WindowOfFour(GgufWriter& w) { w.SetUint32("gemma2.attention.sliding_window", 4); }

// In the only layer, which has a window of 4, position 8 sees 5, 6, 7 and 8: which of the tokens
// before it can be another one without any change?
TEST(WindowTest, SeesItsLastPositionsOnly) {
  const TinyModelOptions one_layer{.architecture = "gemma2", .num_layers = 1};
  const std::vector<float> expected = LogitsOf(one_layer, WindowOfFour, Prompt());
  for (int position = 0; position < kPromptTokens; ++position) {
    std::vector<TokenId> prompt = Prompt();
    prompt[position] = 200;
    const std::vector<float> logits = LogitsOf(one_layer, WindowOfFour, prompt);
    EXPECT_EQ(testing::SameBits(Row(logits, 8), Row(expected, 8)), position < 5) << position;
    for (int row = 0; row < position; ++row)
      EXPECT_TRUE(testing::SameBits(Row(logits, row), Row(expected, row)))
          << position << " before " << row;
  }
}

// The second layer of the family has no window: what the first tokens said comes through it.
TEST(WindowTest, FullLayersSeeAll) {
  const TinyModelOptions two_layers{.architecture = "gemma2", .num_layers = 2};
  const std::vector<float> expected = LogitsOf(two_layers, WindowOfFour, Prompt());
  std::vector<TokenId> prompt = Prompt();
  prompt[0] = 200;
  EXPECT_FALSE(
      testing::SameBits(Row(LogitsOf(two_layers, WindowOfFour, prompt), 8), Row(expected, 8)));
}

// cap(x, c) = c tanh(x / c); the reference values are those of Gemma 2's report.
TEST(SoftcapTest, BoundsLogits) {
  const TinyModelOptions tiny{.architecture = "gemma2", .num_layers = 1};
  const auto with_cap = [&](float cap) {
    return LogitsOf(
        tiny, [cap](GgufWriter& w) { w.SetFloat32("gemma2.final_logit_softcapping", cap); },
        Prompt());
  };
  const std::vector<float> uncapped = with_cap(0);  // none
  for (const float cap : {0.5f, 2.0f, 30.0f}) {
    const std::vector<float> capped = with_cap(cap);
    for (size_t i = 0; i < capped.size(); ++i)
      ASSERT_NEAR(capped[i], cap * std::tanh(uncapped[i] / cap), 2e-5f * cap) << cap << ' ' << i;
  }
}

struct Effect {
  const char* name;
  TinyModelOptions options;
  Edit edit;
};

TinyModelOptions Dense(std::string_view architecture) {
  return {.architecture = architecture, .num_layers = 2};
}
TinyModelOptions Experts(std::string_view architecture) {
  return {.architecture = architecture, .num_layers = 2, .experts = true};
}

const Effect kEffects[] = {
    {"RopeBase", Dense("llama"), [](auto& w) { w.SetFloat32("llama.rope.freq_base", 500.0f); }},
    {"RopeBaseOfWindows", Dense("gemma3"),
     [](auto& w) { w.SetFloat32("gemma3.rope.freq_base_swa", 500.0f); }},
    {"RopeDimensions", Dense("stablelm"),
     [](auto& w) { w.SetUint32("stablelm.rope.dimension_count", 4); }},
    {"RopeFactorWithoutAType", Dense("llama"),
     [](auto& w) { w.SetFloat32("llama.rope.scaling.factor", 2); }},
    {"RopeFactorByItsOldName", Dense("llama"),
     [](auto& w) { w.SetFloat32("llama.rope.scale_linear", 2); }},
    {"RopeYarn", Dense("llama"),
     [](auto& w) {
       w.SetString("llama.rope.scaling.type", "yarn");
       w.SetFloat32("llama.rope.scaling.factor", 4);
       w.SetUint32("llama.rope.scaling.original_context_length", 64);
     }},
    {"AttentionScale", Dense("granite"),
     [](auto& w) { w.SetFloat32("granite.attention.scale", 0.5f); }},
    {"AttentionSoftcap", Dense("gemma2"),
     [](auto& w) { w.SetFloat32("gemma2.attn_logit_softcapping", 0.01f); }},
    {"Window", Dense("gemma2"), WindowOfFour},
    {"ClampOfQkv", Dense("mpt"), [](auto& w) { w.SetFloat32("mpt.attention.clamp_kqv", 0.05f); }},
    {"AlibiBias", Dense("mpt"),
     [](auto& w) { w.SetFloat32("mpt.attention.max_alibi_bias", 2.0f); }},
    {"EmbeddingScale", Dense("granite"),
     [](auto& w) { w.SetFloat32("granite.embedding_scale", 12.0f); }},
    {"ResidualScale", Dense("granite"),
     [](auto& w) { w.SetFloat32("granite.residual_scale", 0.22f); }},
    {"LogitScale", Dense("granite"), [](auto& w) { w.SetFloat32("granite.logit_scale", 8.0f); }},
    {"LogitScaleThatMultiplies", Dense("command-r"),
     [](auto& w) { w.SetFloat32("command-r.logit_scale", 0.5f); }},
    {"ParallelResidual", Dense("gptneox"),
     [](auto& w) { w.SetBool("gptneox.use_parallel_residual", false); }},
    {"RmsEpsilon", Dense("llama"),
     [](auto& w) { w.SetFloat32("llama.attention.layer_norm_rms_epsilon", 0.1f); }},
    {"LayerNormEpsilon", Dense("starcoder2"),
     [](auto& w) { w.SetFloat32("starcoder2.attention.layer_norm_epsilon", 0.1f); }},
    {"ExpertsUsed", Experts("llama"), [](auto& w) { w.SetUint32("llama.expert_used_count", 1); }},
    {"ExpertWeightsScale", Experts("deepseek2"),
     [](auto& w) { w.SetFloat32("deepseek2.expert_weights_scale", 2.5f); }},
    {"ExpertWeightsNorm", Experts("deepseek2"),
     [](auto& w) { w.SetBool("deepseek2.expert_weights_norm", true); }},
    {"ExpertGating", Experts("deepseek2"),
     [](auto& w) { w.SetUint32("deepseek2.expert_gating_func", 2); }},
};

class EffectTest : public ::testing::TestWithParam<Effect> {};

TEST_P(EffectTest, ShowsInTheLogits) {
  const auto unedited = LogitsOf(GetParam().options, {}, Prompt());
  const auto edited = LogitsOf(GetParam().options, GetParam().edit, Prompt());
  EXPECT_FALSE(testing::SameBits(Row(edited, 8), Row(unedited, 8)));
  for (const float logit : edited) ASSERT_TRUE(std::isfinite(logit));
}

INSTANTIATE_TEST_SUITE_P(Table, EffectTest, ::testing::ValuesIn(kEffects),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace baton::engine
