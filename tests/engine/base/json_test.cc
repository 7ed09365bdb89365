#include "engine/base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace baton::engine {
namespace {

std::string Nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(ParseJsonTest, BoundsTheNesting) {
  ASSERT_TRUE(ParseJson(Nested(kMaxJsonDepth), "body").ok());
  for (const size_t depth : {size_t{kMaxJsonDepth} + 1, size_t{1'000'000}}) {
    const absl::Status status = ParseJson(Nested(depth), "body").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(Message(status), "body: JSON nested deeper than 64") << depth;
  }
}

TEST(ParseJsonTest, KeepsTheOrderOfKeys) {
  EXPECT_EQ(ParseJson(R"({"b":1,"a":[2]})", "body")->dump(), R"({"b":1,"a":[2]})");
}

TEST(ParseJsonTest, SaysWhatAndWhere) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":\"\xff\"}", "1 2"}) {
    const absl::Status status = ParseJson(text, "tools").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_TRUE(Message(status).starts_with("tools: ")) << status;
    EXPECT_NE(Message(status).find("column"), std::string_view::npos) << status;
  }
}

}  // namespace
}  // namespace baton::engine
