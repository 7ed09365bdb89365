#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "engine/arch/arch_spec.h"
#include "engine/arch/cost.h"
#include "engine/arch/fingerprint.h"
#include "engine/arch/stage_spec.h"
#include "engine/arch/supported.h"
#include "engine/arch/tensor_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

TEST(ArchTableTest, FindsEachRowAndNoOther) {
  for (const ArchSpec& row : AllArchSpecs()) EXPECT_EQ(FindArchSpec(row.name), &row);
  EXPECT_EQ(FindArchSpec(""), nullptr);
  EXPECT_EQ(FindArchSpec("llama5"), nullptr);
  EXPECT_EQ(FindArchSpec("zzz"), nullptr);
}

TEST(TensorTableTest, EachRoleHasARow) {
  std::set<TensorRole> roles;
  for (const TensorRow& row : TensorTable()) roles.insert(row.role);
  EXPECT_EQ(roles.size(), static_cast<size_t>(kNumTensorRoles));
}

class TinyFileTest : public ::testing::Test {
 protected:
  GgufModel Make(const testing::TinyModelOptions& options) {
    const std::string path = dir_.File("tiny.gguf");
    EXPECT_TRUE(testing::WriteTinyModel(options, path).ok());
    auto model = GgufModel::Open(path);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  std::string WhyNot(const testing::TinyModelOptions& options) {
    return std::string(Message(CheckSupported(Make(options))));
  }

  testing::TempDir dir_;
};

TEST_F(TinyFileTest, ShapesAreCheckedAgainstHyperParams) {
  // The tensors are written for 2 KV heads; then the key says 4.
  const GgufModel model = Make({});
  auto hyperparams = ParseHyperParams(model);
  ASSERT_TRUE(hyperparams.ok());
  for (LayerHyperParams& layer : hyperparams->layers) layer.num_kv_heads = 4;
  const auto found = FindStageTensors(
      *hyperparams, {0, 5}, [&](std::string_view name) { return model.FindTensor(name); },
      "tiny.gguf");
  EXPECT_EQ(std::string(Message(found.status())),
            "blk.0.attn_k.weight: shape [64, 32], expected [64, 64] (tiny.gguf)");
}

TEST_F(TinyFileTest, MissingTensorsAreNamed) {
  const GgufModel model = Make({});
  const auto hyperparams = ParseHyperParams(model);
  for (const std::string absent :
       {"token_embd.weight", "blk.3.ffn_down.weight", "blk.1.attn_q.weight"}) {
    const auto find = [&](std::string_view name) {
      return name == absent ? nullptr : model.FindTensor(name);
    };
    const auto found = FindStageTensors(*hyperparams, {0, 5}, find, "tiny.gguf");
    EXPECT_THAT(std::string(Message(found.status())), HasSubstr(absent));
  }
}

TEST_F(TinyFileTest, TensorsThatNoRowAccountsForAreRefused) {
  const GgufModel model =
      Make({.architecture = "qwen2"});  // has biases, which are optional in llama
  const auto hyperparams = ParseHyperParams(Make({.architecture = "gemma"}));
  TensorInfo odd = model.tensors()[0];
  odd.name = "blk.0.attn_odd.weight";
  EXPECT_THAT(std::string(Message(CheckNoUnknownTensor(*hyperparams, {&odd, 1}, "tiny.gguf"))),
              HasSubstr("blk.0.attn_odd.weight"));
  odd.name = "blk.5.attn_odd.weight";  // of a layer beyond the model's: it only predicts
  EXPECT_TRUE(CheckNoUnknownTensor(*hyperparams, {&odd, 1}, "tiny.gguf").ok());
}

TEST_F(TinyFileTest, TheLastStageGetsATiedEmbedding) {
  const GgufModel model = Make({.tied = true});
  const auto hyperparams = ParseHyperParams(model);
  const auto has_embedding = [&](LayerRange layers) {
    const auto spec = MakeStageSpec(model, *hyperparams, layers, 128, 4, 8, KvType::kF16);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return std::ranges::count(spec->tensors, "token_embd.weight", &TensorPlacement::name);
  };
  EXPECT_EQ(has_embedding({0, 2}), 1);
  EXPECT_EQ(has_embedding({2, 4}), 0);
  EXPECT_EQ(has_embedding({4, 5}), 1);
  EXPECT_EQ(has_embedding({0, 5}), 1);
}

TEST_F(TinyFileTest, CostsAreThoseOfTheStageSpecs) {
  for (const bool tied : {false, true}) {
    const GgufModel model = Make({.tied = tied});
    const auto hyperparams = ParseHyperParams(model);
    const auto cost = CostOfModel(model, *hyperparams, KvType::kF16);
    ASSERT_TRUE(cost.ok()) << cost.status();
    for (const LayerRange layers :
         {LayerRange{0, 5}, LayerRange{0, 2}, LayerRange{2, 3}, LayerRange{3, 5}}) {
      const auto spec = MakeStageSpec(model, *hyperparams, layers, 128, 4, 8, KvType::kF16);
      uint64_t bytes = 0;
      for (const TensorPlacement& tensor : spec->tensors) bytes += tensor.bytes;
      const StageCost stage = CostOfStage(*cost, layers);
      EXPECT_EQ(stage.weights_bytes, bytes) << layers.begin << " to " << layers.end;
      EXPECT_EQ(stage.kv_bytes_per_position, static_cast<uint64_t>(layers.size()) * 2 * 2 * 16 * 2);
    }
  }
}

TEST_F(TinyFileTest, StageSpecsRefuseWhatCannotBe) {
  const GgufModel model = Make({});
  const auto hyperparams = ParseHyperParams(model);
  for (const LayerRange layers :
       {LayerRange{-1, 2}, LayerRange{3, 3}, LayerRange{0, 6}, LayerRange{4, 2}}) {
    EXPECT_FALSE(MakeStageSpec(model, *hyperparams, layers, 128, 4, 8, KvType::kF16).ok());
  }
  EXPECT_FALSE(MakeStageSpec(model, *hyperparams, {0, 5}, 0, 4, 8, KvType::kF16).ok());
  EXPECT_FALSE(MakeStageSpec(model, *hyperparams, {0, 5}, 128, 0, 8, KvType::kF16).ok());

  const GgufModel learned = Make({.architecture = "gpt2", .context_length = 64});
  const auto learned_params = ParseHyperParams(learned);
  EXPECT_TRUE(MakeStageSpec(learned, *learned_params, {0, 5}, 64, 4, 8, KvType::kF16).ok());
  EXPECT_FALSE(MakeStageSpec(learned, *learned_params, {0, 5}, 65, 4, 8, KvType::kF16).ok());
}

TEST_F(TinyFileTest, FingerprintsTellModelsApart) {
  const std::string one = ModelFingerprint(Make({}));
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one, ModelFingerprint(Make({})));
  EXPECT_NE(one, ModelFingerprint(Make({.num_layers = 4})));
  EXPECT_NE(one, ModelFingerprint(Make({.tied = true})));
  EXPECT_NE(one, ModelFingerprint(Make({.type = kernels::QuantType::kF32})));
}

TEST_F(TinyFileTest, SupportSaysWhatStandsInTheWay) {
  EXPECT_EQ(WhyNot({}), "");
  EXPECT_THAT(
      WhyNot({.edit = [](GgufWriter& w) { w.SetString("llama.rope.scaling.type", "none"); }}), "");
  const auto rename = [](GgufWriter& w) { w.SetUint32("llama.nextn_predict_layers", 1); };
  EXPECT_EQ(WhyNot({.edit = rename}), "");
}

}  // namespace
}  // namespace baton::engine
