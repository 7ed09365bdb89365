// Blocks against their own meaning (kernels/unpack.h) and against files of the reference.
#include "engine/quantize/row_quantizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/gguf/gguf_file.h"
#include "kernels/half.h"
#include "kernels/unpack.h"
#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

using kernels::QuantType;

template <typename Block>
float ValueOf(const void* blocks, int64_t i) {
  constexpr int kValues = kernels::TraitsOf(Block::kType).block_size;
  return kernels::Unpack(static_cast<const Block*>(blocks)[i / kValues],
                         static_cast<int>(i % kValues));
}
float HalfOf(const void* row, int64_t i) {
  return kernels::HalfToFloat(static_cast<const uint16_t*>(row)[i]);
}
float Bfloat16Of(const void* row, int64_t i) {
  return kernels::Bfloat16ToFloat(static_cast<const uint16_t*>(row)[i]);
}

struct TypeRow {
  QuantType type;
  float (*value)(const void* blocks, int64_t i);
  double rms_error;  // at most, of values drawn from N(0, 1)
};
const TypeRow kTypes[] = {
    {QuantType::kF16, HalfOf, 3e-4},
    {QuantType::kBF16, Bfloat16Of, 2e-3},
    {QuantType::kQ8_0, ValueOf<kernels::BlockQ8_0>, 0.007},
    {QuantType::kQ6_K, ValueOf<kernels::BlockQ6_K>, 0.022},
    {QuantType::kQ5_0, ValueOf<kernels::BlockQ5_0>, 0.055},
    {QuantType::kQ5_1, ValueOf<kernels::BlockQ5_1>, 0.045},
    {QuantType::kQ5_K, ValueOf<kernels::BlockQ5_K>, 0.040},
    {QuantType::kQ4_0, ValueOf<kernels::BlockQ4_0>, 0.105},
    {QuantType::kQ4_1, ValueOf<kernels::BlockQ4_1>, 0.090},
    {QuantType::kQ4_K, ValueOf<kernels::BlockQ4_K>, 0.080},
    {QuantType::kIQ4_NL, ValueOf<kernels::BlockIQ4_NL>, 0.085},
};

std::vector<char> Quantized(QuantType type, const std::vector<float>& values) {
  std::vector<char> blocks(
      static_cast<size_t>(kernels::RowBytes(type, static_cast<int64_t>(values.size()))));
  RowQuantizerOf(type)(values.data(), static_cast<int64_t>(values.size()), blocks.data());
  return blocks;
}

TEST(RowQuantizerTest, ErrorOfNormalValues) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(64 * 256);
  for (float& value : values) value = normal(random);
  for (const TypeRow& row : kTypes) {
    SCOPED_TRACE(kernels::TraitsOf(row.type).name);
    const std::vector<char> blocks = Quantized(row.type, values);
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = row.value(blocks.data(), static_cast<int64_t>(i)) - values[i];
      squares += error * error;
    }
    const double rms = std::sqrt(squares / static_cast<double>(values.size()));
    EXPECT_LT(rms, row.rms_error);
    EXPECT_GT(rms, row.rms_error / 3);  // else the bound says nothing
  }
}

TEST(RowQuantizerTest, OddBlocks) {
  const float odd[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-20f, -1e-39f, 6e4f, -6e4f};
  for (const TypeRow& row : kTypes) {
    for (const float constant : odd) {
      SCOPED_TRACE(fmt::format("{} of {}", kernels::TraitsOf(row.type).name, constant));
      const std::vector<char> blocks = Quantized(row.type, std::vector<float>(256, constant));
      for (int64_t i = 0; i < 256; ++i) {
        ASSERT_NEAR(row.value(blocks.data(), i), constant, std::fabs(constant) * 0.01 + 1e-7);
      }
    }
  }
}

TEST(RowQuantizerTest, EqualsTheReferenceBitForBit) {
  SKIP_WITHOUT_TEST_DATA();
  const std::string folder = testing::TestDataDir() + "/conformance/quants/llama-";
  const auto source = GgufModel::Open(folder + "F32.gguf");
  ASSERT_TRUE(source.ok()) << Message(source.status());
  for (const TypeRow& row : kTypes) {
    if (row.type == QuantType::kF16) continue;  // the source of the others
    const std::string name = kernels::TraitsOf(row.type).name;
    SCOPED_TRACE(name);
    const auto reference = GgufModel::Open(folder + name + ".gguf");
    ASSERT_TRUE(reference.ok()) << Message(reference.status());
    int compared = 0;
    for (const TensorInfo& expected : reference->tensors()) {
      if (expected.type != row.type) continue;
      const TensorInfo* tensor = source->FindTensor(expected.name);
      std::vector<float> values(static_cast<size_t>(tensor->num_elements()));
      RowReaderOf(tensor->type)(source->mapping(0).data() + tensor->file_offset,
                                tensor->num_elements(), values.data());
      const std::vector<char> blocks = Quantized(row.type, values);
      EXPECT_TRUE(std::string_view(blocks.data(), blocks.size()) ==
                  reference->mapping(0).view().substr(expected.file_offset, expected.bytes))
          << expected.name;
      ++compared;
    }
    EXPECT_GT(compared, 10);
  }
}

}  // namespace
}  // namespace baton::engine
