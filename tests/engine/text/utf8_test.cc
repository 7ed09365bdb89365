#include "engine/text/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace baton::engine {
namespace {

TEST(Utf8StreamTest, HoldsBackUnfinishedCharacters) {
  Utf8Stream stream;
  const std::pair<std::string_view, std::string_view> steps[] = {
      {"\xF0\x9F", ""}, {"\x98", ""},  {"\xB6", "😶"},
      {"a\xC3", "a"},   {"\xA9", "é"}, {"\xE6\xAD", ""},
  };
  for (const auto& [bytes, text] : steps) EXPECT_EQ(stream.Append(bytes), text);
  EXPECT_EQ(stream.Flush(), "\uFFFD");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Utf8StreamTest, OneReplacementForEachMaximalBadPart) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"\xFF", "\uFFFD"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},  // a surrogate: none of its bytes goes with another
      {"\xC0\x80", "\uFFFD\uFFFD"},            // overlong
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xE6\xAD", "\uFFFD"},
      {"\xF0\x9F\x98", "\uFFFD"},
      {"\xE6\xAD"
       "a",
       "\uFFFD"
       "a"},
      {"\xF0\x9F\xE6\xAD\x8C", "\uFFFD\u6B4C"},
      {"\xC3(", "\uFFFD("},
      {"\x80\x80z", "\uFFFD\uFFFDz"},
  };
  for (const auto& [bytes, text] : cases) {
    Utf8Stream whole;
    std::string at_once = whole.Append(bytes);
    at_once += whole.Flush();
    EXPECT_EQ(at_once, text);
    Utf8Stream single;  // byte by byte gives the same
    std::string joined;
    for (const char byte : bytes) joined += single.Append(std::string_view(&byte, 1));
    joined += single.Flush();
    EXPECT_EQ(joined, text);
  }
}

TEST(Utf8Test, Validity) {
  for (std::string_view text :
       {"", "a", "é", "歌", "😶", "\u07FF\u0800\uD7FF\uE000\uFFFF\U00010000\U0010FFFF"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
  for (std::string_view text : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xBF\xBF",
                                "\xF0\x8F\xBF\xBF", "\xF5\x80\x80\x80", "a\xC3"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace baton::engine
