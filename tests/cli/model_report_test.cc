#include "cli/model_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/json.h"
#include "engine/gguf/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace baton::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;

class ModelReportTest : public ::testing::Test {
 protected:
  // 80 values in two tensors, and keys of each shape.
  void SetUp() override {
    engine::GgufWriter writer;
    writer.SetString("general.architecture", "llama");
    writer.SetString("general.name", "tiny \x1b[31m\xff");
    writer.SetUint32("llama.block_count", 2);
    writer.SetFloat32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.SetInts("list", std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    writer.SetString("long", std::string(300, 'x'));
    writer.AddTensor("a.weight", std::vector<int64_t>{32, 2}, kernels::QuantType::kQ8_0);
    writer.AddTensor("b.weight", std::vector<int64_t>{16}, kernels::QuantType::kF32);
    const auto zeros = [&](size_t index, std::ostream& out) {
      out << std::string(index == 0 ? 68 : 64, '\0');
      return absl::OkStatus();
    };
    ASSERT_TRUE(writer.WriteTo(dir_.File("tiny.gguf"), zeros).ok());
    auto model = engine::GgufModel::Open(dir_.File("tiny.gguf"));
    ASSERT_TRUE(model.ok()) << Message(model.status());
    model_.emplace(*std::move(model));
  }

  testing::TempDir dir_;
  std::optional<engine::GgufModel> model_;
};

TEST_F(ModelReportTest, Json) {
  const Json json = Json::parse(engine::JsonText(ModelJson(*model_, absl::OkStatus(), {})));
  const engine::TensorInfo& b = model_->tensors()[1];
  EXPECT_EQ(json["file"], dir_.File("tiny.gguf"));
  EXPECT_EQ(json["parts"][0]["bytes"], model_->total_bytes());
  EXPECT_EQ(json["gguf_version"], 3);
  EXPECT_EQ(json["alignment"], 32);
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["name"], "tiny \x1b[31m\uFFFD");
  EXPECT_EQ(json["parameters"], 80);
  EXPECT_EQ(json["bits_per_weight"], (68.0 + 64.0) * 8 / 80);
  EXPECT_EQ(json["supported"], true);
  EXPECT_EQ(json["reason"], nullptr);
  EXPECT_EQ(json["metadata"]["llama.block_count"], Json({{"type", "u32"}, {"value", 2}}));
  EXPECT_EQ(json["metadata"]["llama.attention.layer_norm_rms_epsilon"]["value"], 1e-5);
  EXPECT_EQ(json["metadata"]["list"]["element_type"], "i32");
  EXPECT_EQ(json["metadata"]["list"]["count"], 10);
  EXPECT_EQ(json["metadata"]["list"]["value"].size(), 8u);
  EXPECT_EQ(json["tensors"][0]["shape"], Json({32, 2}));
  EXPECT_EQ(json["tensors"][1], Json({{"name", "b.weight"},
                                      {"shape", {16}},
                                      {"type", "F32"},
                                      {"bytes", 64},
                                      {"part", 0},
                                      {"offset", b.file_offset}}));
}

TEST_F(ModelReportTest, WhyNotSupportedAndWholeArrays) {
  const Json json = ModelJson(*model_, Unimplemented("no kernel for b.weight"), {.full = true});
  EXPECT_EQ(json["supported"], false);
  EXPECT_EQ(json["reason"], "no kernel for b.weight");
  EXPECT_EQ(json["metadata"]["list"]["value"].size(), 10u);
}

TEST_F(ModelReportTest, Text) {
  const std::string text = ModelText(*model_, absl::OkStatus(), {});
  EXPECT_EQ(FileLine(*model_),
            fmt::format("File: {} bytes (0.0 MB) in 1 part", model_->total_bytes()));
  EXPECT_THAT(text, HasSubstr("Name: tiny \\x1b[31m\\xff\n"));
  EXPECT_THAT(text, HasSubstr("Parameters: 80 (80), 13.20 bits per weight\n"));
  EXPECT_THAT(text, HasSubstr("Shape: layers 2\n"));
  EXPECT_THAT(text, HasSubstr("1, 2, 3, 4, 5, 6, 7, 8, …\n"));
  EXPECT_THAT(text, HasSubstr("[32, 2]"));
  EXPECT_THAT(text, Not(HasSubstr(std::string(200, 'x'))));
  EXPECT_THAT(ModelText(*model_, absl::OkStatus(), {.full = true}),
              HasSubstr(std::string(300, 'x')));
}

}  // namespace
}  // namespace baton::cli
