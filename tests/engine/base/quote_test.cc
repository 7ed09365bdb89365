#include "engine/base/quote.h"

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

TEST(QuoteTest, EscapesWhatATerminalWouldObey) {
  struct Case {
    std::string_view text;
    std::string_view escaped;
  };
  constexpr Case kCases[] = {
      {"blk.0.attn_q.weight", "blk.0.attn_q.weight"},
      {"häß 漢字 🙂", "häß 漢字 🙂"},
      {"a\nb\tc\\d", "a\\nb\\tc\\\\d"},
      {"\x1b[31mred", "\\x1b[31mred"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b", "\\xc2\\x9b"},                    // C1 control sequence introducer
      {"\xff\xfe", "\\xff\\xfe"},                    // never in UTF-8
      {"\xc0\xaf", "\\xc0\\xaf"},                    // overlong
      {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},           // overlong
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // past U+10FFFF
      {"ok\xe6\xbc", "ok\\xe6\\xbc"},                // cut short
  };
  for (const Case& test : kCases) EXPECT_EQ(Escaped(test.text), test.escaped);
}

TEST(QuoteTest, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(Escaped("abcdef", 3), "abc…");
  EXPECT_EQ(Escaped("abc", 3), "abc");
  EXPECT_EQ(Escaped("äöü", 3), "äö…");
}

}  // namespace
}  // namespace baton::engine
