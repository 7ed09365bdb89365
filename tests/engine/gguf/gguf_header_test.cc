// Small files of our own making, whole and damaged.
#include "engine/gguf/gguf_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/gguf/gguf_writer.h"

namespace baton::engine {
namespace {

using kernels::QuantType;
using ::testing::HasSubstr;

// Two keys and two tensors with their data.
std::string SmallFile() {
  GgufWriter writer;
  writer.SetString("general.architecture", "test");
  writer.SetUints("list", std::vector<uint32_t>{1, 2, 3});
  writer.AddTensor("first", std::vector<int64_t>{64, 3}, QuantType::kQ4_0);
  writer.AddTensor("second", std::vector<int64_t>{5}, QuantType::kF32);
  return writer.Header() + std::string(writer.TensorOffsets().back(), '\0');
}

TEST(GgufHeaderTest, TensorsAreWhereTheWriterPutThem) {
  const std::string file = SmallFile();
  const auto header = ParseGgufHeader(file, file.size(), "small.gguf");
  ASSERT_TRUE(header.ok()) << Message(header.status());
  ASSERT_EQ(header->tensors.size(), 2u);
  const TensorInfo& first = header->tensors[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.num_dims, 2);
  EXPECT_EQ(ShapeString(first.ne), "[64, 3, 1, 1]");
  EXPECT_EQ(first.num_elements(), 192);
  EXPECT_EQ(first.bytes, 2u * 18 * 3);
  EXPECT_EQ(first.file_offset, header->data_offset);
  EXPECT_EQ(header->tensors[1].file_offset, header->data_offset + 128);
  EXPECT_EQ(header->data_offset % header->alignment, 0u);
}

TEST(GgufHeaderTest, TheHeaderAloneIsEnough) {
  const std::string file = SmallFile();
  const auto whole = ParseGgufHeader(file, file.size(), "small.gguf");
  ASSERT_TRUE(whole.ok());
  const auto header = ParseGgufHeader(std::string_view(file).substr(0, whole->data_offset),
                                      file.size(), "small.gguf");
  ASSERT_TRUE(header.ok()) << Message(header.status());
  EXPECT_EQ(header->tensors.size(), 2u);
}

TEST(GgufHeaderTest, EveryTruncationIsAnError) {
  const std::string file = SmallFile();
  const size_t needed = file.size() - 12;  // the last tensor needs no padding behind it
  for (size_t bytes = 0; bytes < needed; ++bytes) {
    const auto header = ParseGgufHeader(std::string_view(file).substr(0, bytes), bytes, "small");
    EXPECT_TRUE(absl::IsDataLoss(header.status())) << bytes;
  }
  EXPECT_TRUE(ParseGgufHeader(file, needed, "small").ok());
}

TEST(GgufHeaderTest, ErrorsNameFileAndPlace) {
  struct Damage {
    std::string_view what;
    std::function<void(std::string*)> apply;
    std::string_view message;
  };
  const auto put = [](std::string_view after, size_t skip, char byte) {
    return [=](std::string* file) { (*file)[file->find(after) + after.size() + skip] = byte; };
  };
  const Damage damages[] = {
      {"magic", [](std::string* file) { (*file)[0] = 'g'; }, "magic \"gGUF\", expected \"GGUF\""},
      {"version", [](std::string* file) { (*file)[4] = 1; }, "GGUF version 1, expected 2 or 3"},
      {"endianness", [](std::string* file) { (*file)[4] = 0, (*file)[7] = 3; }, "byte order"},
      {"tensor count", [](std::string* file) { (*file)[15] = 1; }, "tensor count"},
      {"key count", [](std::string* file) { (*file)[23] = 1; }, "key-value count"},
      {"value type", put("architecture", 0, 13), "general.architecture: unknown value type 13"},
      {"array type", put("list", 4, 9), "list: nested array"},
      {"array length", put("list", 15, 1), "list: the array's length"},
      {"dimensions", put("first", 0, 9), "first: 9 dimensions, expected at most 4"},
      {"row", put("first", 4, 65), "first: row of 65 values, expected a multiple of 32"},
      {"negative size", put("first", 11, '\x80'), "first: dimension 0 is"},
      {"tensor type", put("first", 20, 4), "first: unknown tensor type 4"},
      {"offset", put("second", 16, 1), "second: offset 1 is not aligned"},
      {"overlap", put("second", 16, 64), "second: offset 64 overlaps tensor first"},
      {"past the end", put("second", 17, 1),
       "second: 20 bytes at offset 384 go past the end of the file"},
      {"same place", put("second", 16, 0), "second: offset 0 overlaps tensor first"},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    std::string file = SmallFile();
    damage.apply(&file);
    const auto header = ParseGgufHeader(file, file.size(), "small.gguf");
    EXPECT_TRUE(absl::IsDataLoss(header.status()));
    EXPECT_THAT(Message(header.status()), HasSubstr("small.gguf: "));
    EXPECT_THAT(Message(header.status()), HasSubstr(damage.message));
  }
}

TEST(GgufHeaderTest, Alignment) {
  for (const uint32_t alignment : {8u, 64u, 1u << 20}) {
    GgufWriter writer;
    writer.SetUint32("general.alignment", alignment);
    writer.AddTensor("t", std::vector<int64_t>{3}, QuantType::kI8);
    writer.AddTensor("u", std::vector<int64_t>{3}, QuantType::kI8);
    const std::string file = writer.Header() + std::string(writer.TensorOffsets().back(), '\0');
    const auto header = ParseGgufHeader(file, file.size(), "aligned");
    ASSERT_TRUE(header.ok()) << Message(header.status());
    EXPECT_EQ(header->alignment, alignment);
    EXPECT_EQ(header->tensors[1].file_offset - header->tensors[0].file_offset, alignment);
  }
  // No power of two, too small, too large: written as plain values, so that the writer stays sane.
  for (const uint32_t alignment : {0u, 4u, 24u, 1u << 21}) {
    GgufWriter writer;
    writer.SetUint32("general.alignmen_", alignment);
    std::string file = writer.Header();
    file[file.find("alignmen_") + 8] = 't';
    const auto header = ParseGgufHeader(file, file.size(), "aligned");
    EXPECT_THAT(Message(header.status()), HasSubstr("general.alignment: "));
  }
}

TEST(GgufHeaderTest, AVocabularyOf256kTokensStaysUndecoded) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 256 * 1024; ++i) tokens.push_back(fmt::format("token{}", i));
  GgufWriter writer;
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  const std::string file = writer.Header();
  const auto header = ParseGgufHeader(file, file.size(), "vocabulary");
  ASSERT_TRUE(header.ok()) << Message(header.status());
  const GgufValue* value = header->metadata.Find("tokenizer.ggml.tokens");
  EXPECT_EQ(value->count, tokens.size());
  EXPECT_GE(value->bytes.data(), file.data());
  EXPECT_LE(value->bytes.data() + value->bytes.size(), file.data() + file.size());
  const auto decoded = header->metadata.GetStrings("tokenizer.ggml.tokens");
  EXPECT_EQ(decoded->back(), tokens.back());
}

}  // namespace
}  // namespace baton::engine
