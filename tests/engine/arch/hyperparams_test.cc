#include "engine/arch/hyperparams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/gguf/gguf_writer.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;
using Edit = std::function<void(GgufWriter&)>;

// Two layers, four heads, as small as a model of that architecture can be described.
GgufWriter TinyMetadata(const std::string& architecture) {
  GgufWriter writer;
  writer.SetString("general.architecture", architecture);
  const std::string prefix = architecture + ".";
  writer.SetUint32(prefix + "context_length", 512);
  writer.SetUint32(prefix + "embedding_length", 64);
  writer.SetUint32(prefix + "block_count", 2);
  writer.SetUint32(prefix + "feed_forward_length", 128);
  writer.SetUint32(prefix + "attention.head_count", 4);
  writer.SetFloat32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  writer.SetUint32(prefix + "vocab_size", 100);
  return writer;
}

absl::StatusOr<HyperParams> Parse(const GgufWriter& writer) {
  const std::string header = writer.Header();
  const auto parsed = ParseGgufHeader(header, header.size(), "test");
  if (!parsed.ok()) return parsed.status();
  return ParseHyperParams(parsed->metadata);
}

absl::StatusOr<HyperParams> ParseEdited(const std::string& architecture, const Edit& edit) {
  GgufWriter writer = TinyMetadata(architecture);
  edit(writer);
  return Parse(writer);
}

void Ints(GgufWriter& writer, std::string_view key, const std::vector<int32_t>& values) {
  writer.SetInts(key, values);
}

// ---- What is refused, and that the error names the key
// --------------------------------------------------------------

struct Refusal {
  const char* name;
  Edit edit;
  std::vector<std::string> says;
};

const Refusal kRefusals[] = {
    {"ArchitectureAbsent",
     [](GgufWriter& w) { w.Remove("general.architecture"); },
     {"general.architecture"}},
    {"ArchitectureUnknown",
     [](GgufWriter& w) { w.SetString("general.architecture", "nosuch"); },
     {"general.architecture", "nosuch", "llama", "qwen2"}},
    {"ContextAbsent",
     [](GgufWriter& w) { w.Remove("llama.context_length"); },
     {"llama.context_length"}},
    {"ContextZero",
     [](GgufWriter& w) { w.SetUint32("llama.context_length", 0); },
     {"llama.context_length", "0"}},
    {"HiddenAbsent",
     [](GgufWriter& w) { w.Remove("llama.embedding_length"); },
     {"llama.embedding_length"}},
    {"HiddenString",
     [](GgufWriter& w) { w.SetString("llama.embedding_length", "64"); },
     {"llama.embedding_length"}},
    {"HiddenNegative",
     [](GgufWriter& w) { w.SetInt32("llama.embedding_length", -64); },
     {"llama.embedding_length"}},
    {"LayersHuge",
     [](GgufWriter& w) { w.SetUint64("llama.block_count", 1ull << 40); },
     {"llama.block_count"}},
    {"HeadsAbsent",
     [](GgufWriter& w) { w.Remove("llama.attention.head_count"); },
     {"llama.attention.head_count"}},
    {"HeadsZero",
     [](GgufWriter& w) { w.SetUint32("llama.attention.head_count", 0); },
     {"llama.attention.head_count", "0"}},
    {"HeadsNotADivisor",
     [](GgufWriter& w) { w.SetUint32("llama.attention.head_count", 5); },
     {"llama.embedding_length", "5 heads"}},
    {"KvHeadsShortArray",
     [](GgufWriter& w) { Ints(w, "llama.attention.head_count_kv", {2}); },
     {"llama.attention.head_count_kv", "1 values", "2 layers"}},
    {"KvHeadsZeroInArray",
     [](GgufWriter& w) {
       Ints(w, "llama.attention.head_count_kv", {0, 2});
     },
     {"llama.attention.head_count_kv", "0"}},
    {"KvHeadsNotADivisor",
     [](GgufWriter& w) { w.SetUint32("llama.attention.head_count_kv", 3); },
     {"llama.attention.head_count_kv", "3", "4 heads"}},
    {"EpsAbsent",
     [](GgufWriter& w) { w.Remove("llama.attention.layer_norm_rms_epsilon"); },
     {"llama.attention.layer_norm_rms_epsilon"}},
    {"EpsNan",
     [](GgufWriter& w) { w.SetFloat32("llama.attention.layer_norm_rms_epsilon", NAN); },
     {"llama.attention.layer_norm_rms_epsilon"}},
    {"FfnAbsent",
     [](GgufWriter& w) { w.Remove("llama.feed_forward_length"); },
     {"llama.feed_forward_length"}},
    {"RopeDimsOtherThanHead",
     [](GgufWriter& w) { w.SetUint32("llama.rope.dimension_count", 8); },
     {"llama.rope.dimension_count", "8", "16"}},
    {"RopeTypeUnknown",
     [](GgufWriter& w) { w.SetString("llama.rope.scaling.type", "spiral"); },
     {"llama.rope.scaling.type", "spiral"}},
    {"RopeFactorNegative",
     [](GgufWriter& w) { w.SetFloat32("llama.rope.scaling.factor", -2); },
     {"llama.rope.scaling.factor", "-2"}},
    {"RopeFactorNan",
     [](GgufWriter& w) { w.SetFloat32("llama.rope.scaling.factor", NAN); },
     {"llama.rope.scaling.factor"}},
    {"RopeBaseInfinite",
     [](GgufWriter& w) {
       w.SetFloat32("llama.rope.freq_base", std::numeric_limits<float>::infinity());
     },
     {"llama.rope.freq_base"}},
    {"ExpertsUsedAbsent",
     [](GgufWriter& w) { w.SetUint32("llama.expert_count", 4); },
     {"llama.expert_used_count"}},
    {"ExpertsUsedTooMany",
     [](GgufWriter& w) {
       w.SetUint32("llama.expert_count", 4);
       w.SetUint32("llama.expert_used_count", 5);
     },
     {"llama.expert_used_count", "5"}},
    {"RouterUnknown",
     [](GgufWriter& w) {
       w.SetUint32("llama.expert_count", 4);
       w.SetUint32("llama.expert_used_count", 2);
       w.SetUint32("llama.expert_gating_func", 9);
     },
     {"llama.expert_gating_func", "9"}},
    {"VocabularyUnknown",
     [](GgufWriter& w) { w.Remove("llama.vocab_size"); },
     {"llama.vocab_size"}},
    {"NotCausal",
     [](GgufWriter& w) { w.SetBool("llama.attention.causal", false); },
     {"llama.attention.causal"}},
};

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesTheKey) {
  const auto parsed = ParseEdited("llama", GetParam().edit);
  ASSERT_FALSE(parsed.ok());
  for (const std::string& part : GetParam().says)
    EXPECT_THAT(std::string(Message(parsed.status())), HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(Table, RefusalTest, ::testing::ValuesIn(kRefusals),
                         [](const auto& test) { return test.param.name; });

// ---- What is right
// --------------------------------------------------------------------------------------------------

std::vector<int32_t> KvHeads(const HyperParams& h) {
  std::vector<int32_t> heads;
  for (const LayerHyperParams& layer : h.layers) heads.push_back(layer.num_kv_heads);
  return heads;
}

TEST(HyperParamsTest, KvHeadsAbsentScalarOrArray) {
  const auto absent = ParseEdited("llama", [](GgufWriter&) {});
  const auto scalar =
      ParseEdited("llama", [](GgufWriter& w) { w.SetUint32("llama.attention.head_count_kv", 2); });
  const auto same = ParseEdited("llama", [](GgufWriter& w) {
    Ints(w, "llama.attention.head_count_kv", {2, 2});
  });
  const auto mixed = ParseEdited("llama", [](GgufWriter& w) {
    Ints(w, "llama.attention.head_count_kv", {2, 4});
  });
  ASSERT_TRUE(absent.ok() && scalar.ok() && same.ok() && mixed.ok());
  EXPECT_EQ(KvHeads(*absent), (std::vector<int32_t>{4, 4}));
  EXPECT_EQ(KvHeads(*scalar), (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(KvHeads(*same), (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(KvHeads(*mixed), (std::vector<int32_t>{2, 4}));
}

TEST(HyperParamsTest, AnyIntegerWidth) {
  const std::vector<Edit> edits = {
      [](GgufWriter& w) { w.SetUint16("llama.embedding_length", 64); },
      [](GgufWriter& w) { w.SetInt32("llama.embedding_length", 64); },
      [](GgufWriter& w) { w.SetUint64("llama.embedding_length", 64); },
  };
  for (const Edit& edit : edits) {
    const auto h = ParseEdited("llama", edit);
    ASSERT_TRUE(h.ok()) << h.status();
    EXPECT_EQ(h->hidden_size, 64);
  }
}

TEST(HyperParamsTest, HeadSizeNeedNotBeHiddenOverHeads) {
  const auto h = ParseEdited("llama", [](GgufWriter& w) {
    w.SetUint32("llama.embedding_length", 50);
    w.SetUint32("llama.attention.key_length", 16);
    w.SetUint32("llama.attention.value_length", 24);
  });
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_EQ(h->key_dim, 16);
  EXPECT_EQ(h->value_dim, 24);
  EXPECT_DOUBLE_EQ(h->attention_scale, 0.25);
}

TEST(HyperParamsTest, OthersRotateTheirFirstDimensions) {
  const auto h =
      ParseEdited("qwen2", [](GgufWriter& w) { w.SetUint32("qwen2.rope.dimension_count", 8); });
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_EQ(h->rope.dims, 8);
}

TEST(HyperParamsTest, VocabularyIsThatOfTheTokens) {
  const std::vector<std::string> tokens(37, "x");
  const auto h =
      ParseEdited("llama", [&](GgufWriter& w) { w.SetStrings("tokenizer.ggml.tokens", tokens); });
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_EQ(h->vocab_size, 37);
}

TEST(HyperParamsTest, PredictionLayersAreNotRun) {
  const auto h = ParseEdited("deepseek2", [](GgufWriter& w) {
    w.SetUint32("deepseek2.block_count", 3);
    w.SetUint32("deepseek2.nextn_predict_layers", 1);
    w.SetUint32("deepseek2.attention.kv_lora_rank", 32);
    w.SetUint32("deepseek2.rope.dimension_count", 8);
    w.SetInts("deepseek2.attention.head_count_kv", std::vector<int32_t>{4, 4, 4});
  });
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_EQ(h->num_layers, 2);
}

struct ScalingCase {
  const char* name;
  Edit edit;
  RopeScaling scaling;
  double factor;
};

class ScalingTest : public ::testing::TestWithParam<ScalingCase> {};

TEST_P(ScalingTest, IsRead) {
  const auto h = ParseEdited("llama", GetParam().edit);
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_EQ(h->rope.scaling, GetParam().scaling);
  EXPECT_DOUBLE_EQ(h->rope.factor, GetParam().factor);
}

const ScalingCase kScalings[] = {
    {"Absent", [](GgufWriter&) {}, RopeScaling::kNone, 1},
    {"FactorAlone", [](GgufWriter& w) { w.SetFloat32("llama.rope.scaling.factor", 2); },
     RopeScaling::kLinear, 2},
    {"FactorZero", [](GgufWriter& w) { w.SetFloat32("llama.rope.scaling.factor", 0); },
     RopeScaling::kNone, 1},
    {"OldKey", [](GgufWriter& w) { w.SetFloat32("llama.rope.scale_linear", 4); },
     RopeScaling::kLinear, 4},
    {"None",
     [](GgufWriter& w) {
       w.SetString("llama.rope.scaling.type", "none");
       w.SetFloat32("llama.rope.scaling.factor", 2);
     },
     RopeScaling::kNone, 2},
    {"Yarn",
     [](GgufWriter& w) {
       w.SetString("llama.rope.scaling.type", "yarn");
       w.SetFloat32("llama.rope.scaling.factor", 4);
     },
     RopeScaling::kYarn, 4},
};
INSTANTIATE_TEST_SUITE_P(Table, ScalingTest, ::testing::ValuesIn(kScalings),
                         [](const auto& test) { return test.param.name; });

TEST(HyperParamsTest, DocumentedDefaultsOfAFamily) {
  const auto h = ParseEdited("gemma2", [](GgufWriter&) {});
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_DOUBLE_EQ(h->attention_softcap, 50.0);
  EXPECT_DOUBLE_EQ(h->logit_softcap, 30.0);
  EXPECT_DOUBLE_EQ(h->embedding_scale, 8.0);  // sqrt(64)
  EXPECT_EQ(h->layers[0].window, 4096);
  EXPECT_EQ(h->layers[1].window, 0);
}

TEST(HyperParamsTest, TheLargestOfAFamilyScalesQueriesByWidth) {
  const auto h = ParseEdited("gemma2", [](GgufWriter& w) {
    w.SetUint32("gemma2.block_count", 46);
    w.SetUint32("gemma2.attention.key_length", 128);
    w.SetUint32("gemma2.attention.value_length", 128);
    w.SetUint32("gemma2.embedding_length", 576);
  });
  ASSERT_TRUE(h.ok()) << h.status();
  EXPECT_DOUBLE_EQ(h->attention_scale, 1.0 / std::sqrt(144.0));
}

TEST(HyperParamsTest, WindowPatternByPeriodOrByLayer) {
  const auto window = [](GgufWriter& w) {
    w.SetUint32("gemma3.block_count", 4);
    w.SetUint32("gemma3.attention.sliding_window", 8);
  };
  const auto by_period = ParseEdited("gemma3", [&](GgufWriter& w) {
    window(w);
    w.SetUint32("gemma3.attention.sliding_window_pattern", 2);
  });
  const auto by_layer = ParseEdited("gemma3", [&](GgufWriter& w) {
    window(w);
    w.SetBools("gemma3.attention.sliding_window_pattern", {false, true, true, false});
  });
  ASSERT_TRUE(by_period.ok() && by_layer.ok());
  const auto windows = [](const HyperParams& h) {
    std::vector<int32_t> sizes;
    for (const LayerHyperParams& layer : h.layers) sizes.push_back(layer.window);
    return sizes;
  };
  EXPECT_EQ(windows(*by_period), (std::vector<int32_t>{8, 0, 8, 0}));
  EXPECT_EQ(windows(*by_layer), (std::vector<int32_t>{0, 8, 8, 0}));
  EXPECT_DOUBLE_EQ(by_layer->window_rope.theta, 10000.0);
}

}  // namespace
}  // namespace baton::engine
