#include "engine/gguf/split_name.h"

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

TEST(SplitNameTest, RoundTrip) {
  const auto name = ParseSplitName("dir/m-00002-of-00003.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "dir/m");
  EXPECT_EQ(name->no, 1u);
  EXPECT_EQ(name->count, 3u);
  EXPECT_EQ(FormatSplitName(*name), "dir/m-00002-of-00003.gguf");
}

TEST(SplitNameTest, OtherNames) {
  for (const std::string_view path :
       {"m.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-0001-of-0003.gguf",
        "m-00001-of-00003.bin", "m00001-of-00003.gguf", "m-0000x-of-00003.gguf", "-of-.gguf", ""}) {
    EXPECT_FALSE(ParseSplitName(path).has_value()) << path;
  }
}

}  // namespace
}  // namespace baton::engine
