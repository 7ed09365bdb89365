#include "engine/text/stop_strings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton::engine {
namespace {

TEST(StopStringsTest, AcrossTokenBorders) {
  const std::vector<std::string> tokens = {"UNO", " DUE", " TR", "E", "\n", "AA"};
  struct Case {
    std::vector<std::string> stops;
    std::string shown;
    bool stopped;
  };
  const Case cases[] = {
      {{"TRE\nAAAA"}, "UNO DUE TRE\nAA", false},
      {{"E\nA"}, "UNO DUE TR", true},
      {{"DUE", "UE"}, "UNO ", true},
      {{"UE", "DUE"}, "UNO ", true},
      {{"UNO"}, "", true},
      {{"AA"}, "UNO DUE TRE\n", true},
      {{"nothing"}, "UNO DUE TRE\nAA", false},
      {{}, "UNO DUE TRE\nAA", false},
  };
  for (const Case& c : cases) {
    StopStrings stream(c.stops);
    std::string shown;
    for (const std::string& token : tokens) {
      shown += stream.Append(token);
      for (const std::string& stop : c.stops) EXPECT_EQ(shown.find(stop), std::string::npos);
    }
    shown += stream.Flush();
    EXPECT_EQ(shown, c.shown);
    EXPECT_EQ(stream.stopped(), c.stopped);
    StopStrings whole(c.stops);  // streamed is as not streamed
    std::string text;
    for (const std::string& token : tokens) text += token;
    std::string at_once = whole.Append(text);
    at_once += whole.Flush();
    EXPECT_EQ(at_once, c.shown);
  }
}

TEST(StopStringsTest, WithholdsNoMoreThanItMust) {
  StopStrings stream({"abcd", "xyz"});
  EXPECT_EQ(stream.Append("hello ab"), "hello ");
  EXPECT_EQ(stream.Append("x"), "ab");
  EXPECT_EQ(stream.Append("yx"), "xy");
  EXPECT_EQ(stream.Append("y"), "");
  EXPECT_EQ(stream.Append("zrest"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.Append("more"), "");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(StopStringsTest, Validation) {
  EXPECT_TRUE(ValidateStopStrings(std::vector<std::string>{}).ok());
  EXPECT_TRUE(ValidateStopStrings(std::vector<std::string>{"a", "b", "c", "d"}).ok());
  EXPECT_EQ(ValidateStopStrings(std::vector<std::string>{""}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ValidateStopStrings(std::vector<std::string>{"a", "b", "c", "d", "e"}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton::engine
