#include "engine/gguf/split_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/gguf/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace baton::engine {
namespace {

// Six tensors of different sizes, each filled with its own letter.
class SplitWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GgufWriter writer;
    writer.SetString("general.architecture", "test");
    writer.SetUint32(kAlignmentKey, 64);
    for (int i = 0; i < 6; ++i) {
      writer.AddTensor(std::string(1, static_cast<char>('a' + i)),
                       std::vector<int64_t>{10 * (i + 1)}, kernels::QuantType::kF16);
    }
    const auto letters = [](size_t index, std::ostream& out) {
      out << std::string(20 * (index + 1), static_cast<char>('a' + index));
      return absl::OkStatus();
    };
    ASSERT_TRUE(writer.WriteTo(dir_.File("m.gguf"), letters).ok());
  }

  GgufModel Open(std::string_view name) {
    auto model = GgufModel::Open(dir_.File(name));
    EXPECT_TRUE(model.ok()) << Message(model.status());
    return *std::move(model);
  }

  testing::TempDir dir_;
};

TEST_F(SplitWriterTest, SplitAndMergedAgainHasTheSameBytes) {
  const GgufModel source = Open("m.gguf");
  const SplitPlan plan = {{}, {0, 1, 5}, {2, 3, 4}};  // order and contiguity are the plan's affair
  uint64_t done = 0;
  uint64_t total = 0;
  const auto parts = WriteSplit(source, plan, dir_.File("s"), [&](uint64_t d, uint64_t t) {
    EXPECT_GE(d, done);
    done = d;
    total = t;
  });
  ASSERT_TRUE(parts.ok()) << Message(parts.status());
  ASSERT_EQ(parts->size(), 3u);
  EXPECT_EQ(done, total);
  for (const WrittenPart& part : *parts) {
    EXPECT_FALSE(part.was_there);
    EXPECT_EQ(part.bytes, std::filesystem::file_size(part.path));
  }
  const GgufModel split = Open("s-00001-of-00003.gguf");
  EXPECT_EQ(split.tensors().size(), 6u);
  EXPECT_EQ(split.FindTensor("f")->part, 1u);
  EXPECT_EQ(split.header(2).alignment, 64u);
  EXPECT_EQ(split.header(2).metadata.Find("general.architecture"), nullptr);

  SplitPlan sorted = {{0, 1, 2}, {3, 4, 5}};
  ASSERT_TRUE(WriteSplit(source, sorted, dir_.File("t"), nullptr).ok());
  const auto merged = WriteMerged(Open("t-00001-of-00002.gguf"), dir_.File("merged.gguf"), nullptr);
  ASSERT_TRUE(merged.ok()) << Message(merged.status());
  EXPECT_TRUE(Open("merged.gguf").mapping(0).view() == source.mapping(0).view());
}

TEST_F(SplitWriterTest, GoesOnWhereItWasStopped) {
  const GgufModel source = Open("m.gguf");
  const SplitPlan plan = {{0, 1}, {2, 3}, {4, 5}};
  const auto first = WriteSplit(source, plan, dir_.File("s"), nullptr);
  ASSERT_TRUE(first.ok()) << Message(first.status());
  std::filesystem::remove((*first)[1].path);
  {  // One wrong byte at the end.
    std::fstream damaged((*first)[2].path, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-100, std::ios::end);
    damaged << '!';
  }
  const auto second = WriteSplit(source, plan, dir_.File("s"), nullptr);
  ASSERT_TRUE(second.ok()) << Message(second.status());
  EXPECT_TRUE((*second)[0].was_there);
  EXPECT_FALSE((*second)[1].was_there);
  EXPECT_FALSE((*second)[2].was_there);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*second)[i].xxh3, (*first)[i].xxh3);
}

}  // namespace
}  // namespace baton::engine
