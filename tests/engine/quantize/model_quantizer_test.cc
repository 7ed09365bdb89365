#include "engine/quantize/model_quantizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "engine/gguf/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

using kernels::QuantType;
using ::testing::HasSubstr;

struct Tensor {
  std::string name;
  std::vector<int64_t> ne;
};

// F32 tensors with values of a slow wave; `last` is the last value of each.
void WriteModel(const std::string& path, const std::vector<Tensor>& tensors, float last = 0.5f) {
  GgufWriter writer;
  writer.SetString("general.architecture", "test");
  std::vector<int64_t> sizes;
  for (const Tensor& tensor : tensors) {
    writer.AddTensor(tensor.name, tensor.ne, QuantType::kF32);
    sizes.push_back(1);
    for (const int64_t n : tensor.ne) sizes.back() *= n;
  }
  const absl::Status written = writer.WriteTo(path, [&](size_t index, std::ostream& out) {
    std::vector<float> values(static_cast<size_t>(sizes[index]));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.37f * static_cast<float>(i));
    values.back() = last;
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * 4));
    return absl::OkStatus();
  });
  ASSERT_TRUE(written.ok()) << Message(written);
}

// Types by tensor name after quantizing with a recipe.
std::map<std::string, QuantType> TypesAfter(std::string_view recipe,
                                            const std::vector<Tensor>& tensors, bool pure) {
  const testing::TempDir dir;
  WriteModel(dir.File("in.gguf"), tensors);
  const auto model = GgufModel::Open(dir.File("in.gguf"));
  EXPECT_TRUE(model.ok());
  QuantRecipe row = FindQuantRecipe(recipe).value();
  if (pure) row = PureRecipe(row);
  const absl::Status done = QuantizeModel(*model, row, dir.File("out.gguf"), 2, nullptr);
  EXPECT_TRUE(done.ok()) << Message(done);
  const auto result = GgufModel::Open(dir.File("out.gguf"));
  EXPECT_TRUE(result.ok()) << Message(result.status());
  EXPECT_EQ(result->metadata().GetUint("general.file_type").value(), row.file_type);
  std::map<std::string, QuantType> types;
  for (const TensorInfo& tensor : result->tensors()) types[std::string(tensor.name)] = tensor.type;
  return types;
}

TEST(ModelQuantizerTest, MixOfTypes) {
  std::vector<Tensor> tensors = {
      {"token_embd.weight", {256, 8}},     {"output.weight", {256, 8}},
      {"output_norm.weight", {256}},       {"rows_of_160.weight", {160, 2}},
      {"rows_of_33.weight", {33, 2}},      {"blk.0.ffn_gate_inp.weight", {256, 4}},
      {"blk.0.attn_qkv.weight", {256, 2}}, {"blk.0.attn_q.bias", {256}}};
  for (int layer = 0; layer < 16; ++layer) {
    tensors.push_back({fmt::format("blk.{}.attn_v.weight", layer), {256, 2}});
    tensors.push_back({fmt::format("blk.{}.ffn_up.weight", layer), {256, 2}});
  }
  auto types = TypesAfter("q4_k_m", tensors, /*pure=*/false);
  EXPECT_EQ(types["token_embd.weight"], QuantType::kQ4_K);
  EXPECT_EQ(types["output.weight"], QuantType::kQ6_K);
  EXPECT_EQ(types["output_norm.weight"], QuantType::kF32);
  EXPECT_EQ(types["rows_of_160.weight"], QuantType::kQ5_0);
  EXPECT_EQ(types["rows_of_33.weight"], QuantType::kF16);
  EXPECT_EQ(types["blk.0.ffn_gate_inp.weight"], QuantType::kF32);
  EXPECT_EQ(types["blk.0.attn_qkv.weight"], QuantType::kQ5_K);
  EXPECT_EQ(types["blk.0.attn_q.bias"], QuantType::kF32);
  const std::vector<int> precise = {0, 1, 4, 7, 10, 13, 14, 15};
  for (int layer = 0; layer < 16; ++layer) {
    EXPECT_EQ(types[fmt::format("blk.{}.ffn_up.weight", layer)], QuantType::kQ4_K);
    EXPECT_EQ(types[fmt::format("blk.{}.attn_v.weight", layer)] == QuantType::kQ6_K,
              std::ranges::find(precise, layer) != precise.end())
        << layer;
  }
  types = TypesAfter("Q4_K_M", tensors, /*pure=*/true);
  EXPECT_EQ(types["output.weight"], QuantType::kQ4_K);
  EXPECT_EQ(types["blk.0.attn_v.weight"], QuantType::kQ4_K);
}

TEST(ModelQuantizerTest, ATiedEmbeddingCountsAsOutput) {
  EXPECT_EQ(TypesAfter("Q4_0", {{"token_embd.weight", {256, 8}}}, false)["token_embd.weight"],
            QuantType::kQ6_K);
}

TEST(ModelQuantizerTest, Refusals) {
  EXPECT_THAT(Message(FindQuantRecipe("Q9").status()), HasSubstr("expected one of F32, F16"));
  const testing::TempDir dir;
  const QuantRecipe q8 = FindQuantRecipe("Q8_0").value();
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    WriteModel(dir.File("bad.gguf"), {{"a.weight", {32, 3}}}, bad);
    const auto model = GgufModel::Open(dir.File("bad.gguf"));
    const absl::Status status = QuantizeModel(*model, q8, dir.File("out.gguf"), 1, nullptr);
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_THAT(Message(status), HasSubstr("a.weight: a value is infinite"));
    EXPECT_FALSE(std::filesystem::exists(dir.File("out.gguf")));
  }
  WriteModel(dir.File("in.gguf"), {{"a.weight", {32, 3}}});
  ASSERT_TRUE(
      QuantizeModel(*GgufModel::Open(dir.File("in.gguf")), q8, dir.File("q8.gguf"), 1, nullptr)
          .ok());
  const auto again =
      QuantizeModel(*GgufModel::Open(dir.File("q8.gguf")), FindQuantRecipe("Q4_0").value(),
                    dir.File("out.gguf"), 1, nullptr);
  EXPECT_THAT(Message(again), HasSubstr("a.weight: type Q8_0 would be quantized a second time"));
}

TEST(ModelQuantizerTest, TheMixIsTheReferences) {
  SKIP_WITHOUT_TEST_DATA();
  const testing::TempDir dir;
  const std::string folder = testing::TestDataDir() + "/conformance/quants/";
  const auto source = GgufModel::Open(folder + "llama-F32.gguf");
  const auto reference = GgufModel::Open(folder + "llama-Q4_K_M.gguf");
  ASSERT_TRUE(source.ok() && reference.ok());
  const absl::Status done =
      QuantizeModel(*source, FindQuantRecipe("Q4_K_M").value(), dir.File("out.gguf"), 2, nullptr);
  ASSERT_TRUE(done.ok()) << Message(done);
  const auto result = GgufModel::Open(dir.File("out.gguf"));
  ASSERT_TRUE(result.ok()) << Message(result.status());
  for (const TensorInfo& expected : reference->tensors()) {
    const TensorInfo* tensor = result->FindTensor(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_EQ(tensor->type, expected.type) << expected.name;
    EXPECT_TRUE(result->mapping(0).view().substr(tensor->file_offset, tensor->bytes) ==
                reference->mapping(0).view().substr(expected.file_offset, expected.bytes))
        << expected.name;
  }
}

}  // namespace
}  // namespace baton::engine
