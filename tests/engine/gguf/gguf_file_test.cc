// Split sets, sound and broken.
#include "engine/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "engine/gguf/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace baton::engine {
namespace {

using kernels::QuantType;
using ::testing::HasSubstr;

// One part of a set "m" of two; each holds one tensor.
struct PartSpec {
  std::string file = "m-00001-of-00002.gguf";
  std::string tensor = "a";
  int no = 0;
  int count = 2;
  int num_tensors = 2;  // negative: no such key
};

void WritePart(const testing::TempDir& dir, const PartSpec& spec) {
  GgufWriter writer;
  writer.SetUint16(kSplitNoKey, static_cast<uint16_t>(spec.no));
  writer.SetUint16(kSplitCountKey, static_cast<uint16_t>(spec.count));
  if (spec.num_tensors >= 0) writer.SetInt32(kSplitTensorsCountKey, spec.num_tensors);
  writer.AddTensor(spec.tensor, std::vector<int64_t>{8}, QuantType::kF32);
  const absl::Status written = writer.WriteTo(dir.File(spec.file), [&](size_t, std::ostream& out) {
    out << std::string(32, spec.tensor[0]);
    return absl::OkStatus();
  });
  ASSERT_TRUE(written.ok()) << Message(written);
}

TEST(GgufModelTest, OpensAllPartsFromTheFirst) {
  const testing::TempDir dir;
  WritePart(dir, {});
  WritePart(dir, {.file = "m-00002-of-00002.gguf", .tensor = "b", .no = 1});
  const auto model = GgufModel::Open(dir.File("m-00001-of-00002.gguf"));
  ASSERT_TRUE(model.ok()) << Message(model.status());
  ASSERT_EQ(model->parts().size(), 2u);
  EXPECT_EQ(model->parts()[1].file_name, "m-00002-of-00002.gguf");
  EXPECT_EQ(model->total_bytes(), model->parts()[0].bytes + model->parts()[1].bytes);
  const TensorInfo* b = model->FindTensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->part, 1u);
  EXPECT_EQ(model->mapping(1).view().substr(b->file_offset, b->bytes), std::string(32, 'b'));
  EXPECT_EQ(model->FindTensor("c"), nullptr);
}

TEST(GgufModelTest, ASplitCountOfOneIsNotSplit) {
  const testing::TempDir dir;
  WritePart(dir, {.file = "any name", .count = 1});
  EXPECT_TRUE(GgufModel::Open(dir.File("any name")).ok());
}

TEST(GgufModelTest, BrokenSetsNameFileAndKey) {
  const PartSpec second = {.file = "m-00002-of-00002.gguf", .tensor = "b", .no = 1};
  const auto changed = [](PartSpec spec, const std::function<void(PartSpec*)>& change) {
    change(&spec);
    return spec;
  };
  struct Case {
    PartSpec first;
    PartSpec second;
    std::string_view open;
    std::string_view message;
  };
  const Case cases[] = {
      {{}, second, "m-00002-of-00002.gguf", "m-00002-of-00002.gguf: part 2 of a split model"},
      {{.count = 3}, second, "m-00001-of-00002.gguf", "split.count is 3, expected 2"},
      {{.no = 1}, second, "m-00001-of-00002.gguf", "split.no is 1, expected 0"},
      {{.num_tensors = -1}, second, "m-00001-of-00002.gguf", "split.tensors.count: key is missing"},
      {{.file = "m.gguf"}, second, "m.gguf", "m.gguf: split.count is 2"},
      {{.num_tensors = 5},
       changed(second, [](PartSpec* spec) { spec->num_tensors = -1; }),
       "m-00001-of-00002.gguf",
       "split.tensors.count is 5, but the 2 parts hold 2 tensors"},
      {{},
       changed(second, [](PartSpec* spec) { spec->num_tensors = 7; }),
       "m-00001-of-00002.gguf",
       "m-00002-of-00002.gguf: split.tensors.count is 7, expected 2"},
      {{},
       changed(second, [](PartSpec* spec) { spec->no = 0; }),
       "m-00001-of-00002.gguf",
       "m-00002-of-00002.gguf: split.no is 0, expected 1"},
      {{},
       changed(second, [](PartSpec* spec) { spec->count = 0; }),
       "m-00001-of-00002.gguf",
       "m-00002-of-00002.gguf: split.count is 0, expected 2"},
      {{},
       changed(second, [](PartSpec* spec) { spec->tensor = "a"; }),
       "m-00001-of-00002.gguf",
       "m-00002-of-00002.gguf: a: duplicate tensor, also in"},
      {{},
       changed(second, [](PartSpec* spec) { spec->file = "other"; }),
       "m-00001-of-00002.gguf",
       "m-00002-of-00002.gguf: missing: no such file, part 2 of 2"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.message);
    const testing::TempDir dir;
    WritePart(dir, test.first);
    WritePart(dir, test.second);
    const auto model = GgufModel::Open(dir.File(test.open));
    EXPECT_TRUE(absl::IsDataLoss(model.status()));
    EXPECT_THAT(Message(model.status()), HasSubstr(test.message));
  }
}

TEST(GgufModelTest, AnAbsentModelIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(GgufModel::Open("/nonexistent/m.gguf").status()));
}

}  // namespace
}  // namespace baton::engine
