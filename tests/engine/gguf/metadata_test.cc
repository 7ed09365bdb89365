#include "engine/gguf/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/gguf/gguf_header.h"
#include "engine/gguf/gguf_writer.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A header's bytes and what was parsed from them, which points into the bytes.
struct Parsed {
  explicit Parsed(const GgufWriter& writer) : bytes(writer.Header()) {
    auto parsed = ParseGgufHeader(bytes, bytes.size(), "test");
    EXPECT_TRUE(parsed.ok()) << Message(parsed.status());
    if (parsed.ok()) header = *std::move(parsed);
  }
  const Metadata& metadata() const { return header.metadata; }

  std::string bytes;
  GgufHeader header;
};

template <typename T>
GgufValue Scalar(GgufType type, const T& value) {
  return {.type = type,
          .element = type,
          .bytes = {reinterpret_cast<const char*>(&value), sizeof(value)}};
}

TEST(MetadataTest, IntegersOfAnyWidthThatFits) {
  GgufWriter writer;
  const int8_t i8 = -5;
  const uint8_t u8 = 200;
  const int16_t i16 = -300;
  const uint16_t u16 = 60000;
  const int64_t i64 = std::numeric_limits<int64_t>::min();
  const uint64_t u64 = std::numeric_limits<uint64_t>::max();
  writer.SetValue("i8", Scalar(GgufType::kInt8, i8));
  writer.SetValue("u8", Scalar(GgufType::kUint8, u8));
  writer.SetValue("i16", Scalar(GgufType::kInt16, i16));
  writer.SetValue("u16", Scalar(GgufType::kUint16, u16));
  writer.SetInt32("i32", 7);
  writer.SetUint32("u32", 4000000000u);
  writer.SetValue("i64", Scalar(GgufType::kInt64, i64));
  writer.SetValue("u64", Scalar(GgufType::kUint64, u64));
  const Parsed parsed(writer);
  const Metadata& metadata = parsed.metadata();

  struct Case {
    std::string_view key;
    std::optional<uint64_t> as_uint;
    std::optional<int64_t> as_int;
  };
  const Case cases[] = {
      {"i8", {}, -5},        {"u8", 200, 200}, {"i16", {}, -300},
      {"u16", 60000, 60000}, {"i32", 7, 7},    {"u32", 4000000000u, 4000000000},
      {"i64", {}, i64},      {"u64", u64, {}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.key);
    const auto as_uint = metadata.GetUint(test.key);
    const auto as_int = metadata.GetInt(test.key);
    EXPECT_EQ(as_uint.ok() ? std::optional(*as_uint) : std::nullopt, test.as_uint);
    EXPECT_EQ(as_int.ok() ? std::optional(*as_int) : std::nullopt, test.as_int);
  }
}

TEST(MetadataTest, OtherTypes) {
  GgufWriter writer;
  writer.SetFloat32("f32", 0.5f);
  const double f64 = 1e-5;
  writer.SetValue("f64", Scalar(GgufType::kFloat64, f64));
  writer.SetBool("yes", true);
  writer.SetString("text", "a\0b");
  writer.SetString("empty", "");
  const std::vector<std::string> strings = {"", "x", "yz"};
  writer.SetStrings("strings", strings);
  writer.SetInts("ints", std::vector<int32_t>{-1, 2});
  writer.SetUints("uints", std::vector<uint32_t>{1, 4000000000u});
  writer.SetBools("bools", {true, false});
  writer.SetFloats("floats", std::vector<float>{1.5f, -2.0f});
  writer.SetFloats("no floats", {});
  const Parsed parsed(writer);
  const Metadata& metadata = parsed.metadata();

  EXPECT_EQ(metadata.GetFloat("f32").value(), 0.5);
  EXPECT_EQ(metadata.GetFloat("f64").value(), 1e-5);
  EXPECT_EQ(metadata.GetBool("yes").value(), true);
  EXPECT_EQ(metadata.GetString("empty").value(), "");
  EXPECT_THAT(metadata.GetStrings("strings").value(), ElementsAre("", "x", "yz"));
  EXPECT_THAT(metadata.GetInts("ints").value(), ElementsAre(-1, 2));
  EXPECT_THAT(metadata.GetInts("uints").value(), ElementsAre(1, 4000000000));
  EXPECT_THAT(metadata.GetInts("bools").value(), ElementsAre(1, 0));
  EXPECT_THAT(metadata.GetFloats("floats").value(), ElementsAre(1.5f, -2.0f));
  EXPECT_TRUE(metadata.GetFloats("no floats").value().empty());
  EXPECT_EQ(metadata.entries().size(), 11u);
  EXPECT_EQ(metadata.entries()[0].key, "f32");
}

TEST(MetadataTest, AnAbsentKeyIsNotAWrongOne) {
  GgufWriter writer;
  writer.SetString("text", "x");
  const Parsed parsed(writer);
  const Metadata& metadata = parsed.metadata();

  EXPECT_FALSE(metadata.Has("absent"));
  EXPECT_TRUE(absl::IsNotFound(metadata.GetUint("absent").status()));
  EXPECT_EQ(metadata.FindUint("absent").value(), std::nullopt);
  EXPECT_EQ(metadata.FindString("text").value(), "x");
  const absl::Status wrong = metadata.FindUint("text").status();
  EXPECT_TRUE(absl::IsInvalidArgument(wrong));
  EXPECT_THAT(Message(wrong), HasSubstr("text: type string, expected an unsigned integer"));
  EXPECT_TRUE(absl::IsInvalidArgument(metadata.GetStrings("text").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(metadata.GetInts("text").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(metadata.GetFloats("text").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(metadata.GetBool("text").status()));
}

}  // namespace
}  // namespace baton::engine
