#include "engine/gguf/gguf_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/gguf/gguf_file.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

using kernels::QuantType;

// Metadata and tensors of `model`, written again.
GgufWriter Copy(const GgufModel& model) {
  GgufWriter writer;
  for (const Metadata::Entry& entry : model.metadata().entries()) {
    writer.SetValue(entry.key, entry.value);
  }
  for (const TensorInfo& tensor : model.tensors()) {
    writer.AddTensor(tensor.name, std::span(tensor.ne.data(), tensor.num_dims), tensor.type);
  }
  return writer;
}

TEST(GgufWriterTest, KeysAreReplacedAndRemoved) {
  GgufWriter writer;
  writer.SetUint32("a", 1);
  writer.SetUint32("b", 2);
  writer.SetString("a", "text");
  writer.Remove("b");
  const std::string bytes = writer.Header();
  const auto header = ParseGgufHeader(bytes, bytes.size(), "written");
  ASSERT_TRUE(header.ok()) << Message(header.status());
  EXPECT_EQ(header->metadata.entries().size(), 1u);
  EXPECT_EQ(header->metadata.GetString("a").value(), "text");
}

TEST(GgufWriterTest, EveryTypeHasItsSize) {
  GgufWriter writer;
  for (uint32_t id = 0; id < kernels::kNumQuantTypes; ++id) {
    if (!kernels::IsDefinedQuantType(id)) continue;
    const auto type = static_cast<QuantType>(id);
    writer.AddTensor(kernels::TraitsOf(type).name, std::vector<int64_t>{512, 3}, type);
  }
  const std::string bytes = writer.Header();
  const uint64_t data_bytes = writer.TensorOffsets().back();
  const auto header = ParseGgufHeader(bytes, bytes.size() + data_bytes, "written");
  ASSERT_TRUE(header.ok()) << Message(header.status());
  for (const TensorInfo& tensor : header->tensors) {
    const kernels::QuantTraits& traits = kernels::TraitsOf(tensor.type);
    EXPECT_EQ(tensor.name, traits.name);
    EXPECT_EQ(tensor.bytes, 3u * 512 / traits.block_size * traits.block_bytes);
  }
}

TEST(GgufWriterTest, AShortTensorLeavesNoFile) {
  const testing::TempDir dir;
  GgufWriter writer;
  writer.AddTensor("t", std::vector<int64_t>{2}, QuantType::kF32);
  const absl::Status written = writer.WriteTo(dir.File("m.gguf"), [](size_t, std::ostream& out) {
    out << "1234567";
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsInternal(written));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(GgufWriterTest, ACopyOfAFileHasItsBytes) {
  SKIP_WITHOUT_TEST_DATA();
  const testing::TempDir dir;
  const auto model = GgufModel::Open(testing::TestDataDir() + "/conformance/models/llama.gguf");
  ASSERT_TRUE(model.ok()) << Message(model.status());
  const GgufWriter writer = Copy(*model);
  const absl::Status written =
      writer.WriteTo(dir.File("copy.gguf"), [&](size_t index, std::ostream& out) {
        const TensorInfo& tensor = model->tensors()[index];
        out << model->mapping(0).view().substr(tensor.file_offset, tensor.bytes);
        return absl::OkStatus();
      });
  ASSERT_TRUE(written.ok()) << Message(written);
  const auto copy = MmapFile::Open(dir.File("copy.gguf"));
  ASSERT_TRUE(copy.ok()) << Message(copy.status());
  EXPECT_TRUE((*copy)->view() == model->mapping(0).view());
}

}  // namespace
}  // namespace baton::engine
