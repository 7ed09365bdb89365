#include "cli/flag_values.h"

#include <gtest/gtest.h>

#include <optional>

#include "cli/exit_code.h"

namespace baton::cli {
namespace {

struct SizeCase {
  std::string_view text;
  std::optional<uint64_t> bytes;  // nullopt: a usage error
};

TEST(FlagValuesTest, Sizes) {
  constexpr SizeCase kCases[] = {{"1024", 1024},
                                 {"4GiB", uint64_t{4} << 30},
                                 {"500MB", 500'000'000},
                                 {"1.5MiB", 1572864},
                                 {"0", 0},
                                 {"", std::nullopt},
                                 {"-1", std::nullopt},
                                 {"much", std::nullopt},
                                 {"4Gb", std::nullopt},
                                 {"1e999TiB", std::nullopt}};
  for (const SizeCase& c : kCases) {
    const auto bytes = ParseSize("--memory", c.text);
    ASSERT_EQ(bytes.ok(), c.bytes.has_value()) << c.text;
    if (bytes.ok()) {
      EXPECT_EQ(*bytes, *c.bytes) << c.text;
    } else {
      EXPECT_EQ(ExitCodeOf(bytes.status()), kUsage) << c.text;
    }
  }
}

TEST(FlagValuesTest, Durations) {
  EXPECT_EQ(*ParseDuration("--wait", "30s"), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("--wait", "500ms"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseDuration("--wait", "2m"), absl::Minutes(2));
  EXPECT_EQ(*ParseDuration("--wait", "1.5h"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("--wait", "7"), absl::Seconds(7));
  for (std::string_view wrong : {"", "s", "-3s", "3d"})
    EXPECT_FALSE(ParseDuration("--wait", wrong).ok()) << wrong;
}

TEST(FlagValuesTest, TokenIds) {
  EXPECT_EQ(*ParseTokenIds("--tokens", "1,2,3"), (std::vector<engine::TokenId>{1, 2, 3}));
  EXPECT_EQ(*ParseTokenIds("--tokens", "1, 2"), (std::vector<engine::TokenId>{1, 2}));
  EXPECT_TRUE(ParseTokenIds("--tokens", "")->empty());
  for (std::string_view wrong : {"1,,2", "-1", "x", "1;2", "99999999999"}) {
    EXPECT_FALSE(ParseTokenIds("--tokens", wrong).ok()) << wrong;
  }
}

TEST(FlagValuesTest, LayerRangesFollowEachOther) {
  const std::vector<engine::LayerRange> expected = {{0, 10}, {10, 30}};
  EXPECT_EQ(*ParseLayerRanges("--split", "0-9,10-29"), expected);
  EXPECT_EQ(ParseLayerRanges("--split", "0")->front(), (engine::LayerRange{0, 1}));
  for (std::string_view wrong : {"", "1-9", "0-9,11-29", "0-9,9-29", "9-0", "0-9,"}) {
    EXPECT_FALSE(ParseLayerRanges("--split", wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace baton::cli
