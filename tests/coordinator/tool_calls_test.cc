// Calls in answers, however the answer comes in pieces.
#include "coordinator/tool_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::coordinator {
namespace {

struct AnswerCase {
  const char* name;
  std::string text;
  std::string content;  // that is left of it
  std::vector<std::pair<std::string, std::string>> calls;
};

// A model that is asked to may nest what overflows the stack of whoever writes it down again.
const std::string kDeep = R"({"a":)" + std::string(200, '[') + std::string(200, ']') + "}";

const AnswerCase kAnswers[] = {
    {"Text", "It is 5 < 6, [see] {this}.", "It is 5 < 6, [see] {this}.", {}},
    {"Alone",
     R"({"name": "f", "arguments": {"x": [1, {"y": "}"}]}})",
     "",
     {{"f", R"({"x": [1, {"y": "}"}]})"}}},
    {"Parameters", " \n{\"name\": \"f\", \"parameters\": {}}\n", "", {{"f", "{}"}}},
    {"List",
     R"([{"name":"f","arguments":{}},{"name":"g","arguments":{"a":"\"]"}}])",
     "",
     {{"f", "{}"}, {"g", R"({"a":"\"]"})"}}},
    {"Marked",
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
     "",
     {{"f", "{}"}}},
    {"AfterWords",
     "Let me see.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
     "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>\n",
     "Let me see.\n",
     {{"f", "{}"}, {"g", "{}"}}},
    {"WordsAfter",
     "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> Done.",
     " Done.",
     {{"f", "{}"}}},
    {"MarkOfAList", R"([TOOL_CALLS] [{"name":"f","arguments":{}}])", "", {{"f", "{}"}}},
    {"ArgumentsAsText", R"({"name":"f","arguments":"{\"x\":1}"})", "", {{"f", R"({"x":1})"}}},
    {"OtherFunction", R"({"name":"h","arguments":{}})", R"({"name":"h","arguments":{}})", {}},
    {"OtherJson", R"({"answer": 42} is it)", R"({"answer": 42} is it)", {}},
    {"NoJsonInMarks", "<tool_call>f(1)</tool_call>", "<tool_call>f(1)</tool_call>", {}},
    {"ArgumentsFirst", R"({"arguments": {"x": 1}, "name": "f"})", "", {{"f", R"({"x":1})"}}},
    {"KeysAround",
     R"({"id": "}", "name": "f", "arguments": {"x":"\\"}, "of": {"a": [1]}} )",
     "",
     {{"f", R"({"x":"\\"})"}}},
    {"ArgumentsInOtherObject",
     R"({"name":"f","other":{"arguments":{}}})",
     R"({"name":"f","other":{"arguments":{}}})",
     {}},
    {"NoCallInAList", R"([{"name":"f","arguments":{}}, 3])", " 3]", {{"f", "{}"}}},
    {"EmptyList", "[]", "[]", {}},
    {"CutOff", R"(<tool_call>{"name":"f","argu)", R"(<tool_call>{"name":"f","argu)", {}},
    {"CutOffInArguments",
     R"(<tool_call>{"name":"f","arguments":{"x": [)",
     "",
     {{"f", R"({"x": [)"}}},
    {"Deep", R"({"name":"f","arguments":)" + kDeep + "}", "", {{"f", kDeep}}},
    {"DeepNoCall", kDeep, kDeep, {}},
    {"AlmostAMark", "a <tool", "a <tool", {}},
};

class ToolCallReaderTest : public ::testing::TestWithParam<AnswerCase> {};

TEST_P(ToolCallReaderTest, FindsTheSameInAnyPieces) {
  const std::string& text = GetParam().text;
  for (size_t size = 1; size <= text.size(); ++size) {
    ToolCallReader reader({"f", "g"});
    std::string content;
    std::vector<std::pair<std::string, std::string>> calls;
    const auto take = [&](const std::vector<AnswerPart>& parts) {
      for (const AnswerPart& part : parts) {
        content += part.text;
        if (!part.name.empty()) calls.emplace_back(part.name, "");
        if (!part.arguments.empty()) calls.back().second += part.arguments;
      }
    };
    for (size_t at = 0; at < text.size(); at += size) take(reader.Append(text.substr(at, size)));
    take(reader.Finish());
    EXPECT_EQ(content, GetParam().content) << "in pieces of " << size;
    EXPECT_EQ(calls, GetParam().calls) << "in pieces of " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ToolCallReaderTest, ::testing::ValuesIn(kAnswers),
                         [](const auto& test) { return test.param.name; });

TEST(ToolCallReader, TextIsNotHeldBackWithoutNeed) {
  ToolCallReader reader({"f"});
  EXPECT_EQ(reader.Append("It is ")[0].text, "It is ");
  EXPECT_EQ(reader.Append("so <")[0].text, "so ");
  EXPECT_EQ(reader.Append(" 3")[0].text, "< 3");
  ToolCallReader without_tools({});
  EXPECT_EQ(without_tools.Append("<tool_call>{")[0].text, "<tool_call>{");
}

TEST(ToolCallReader, ArgumentsComeAsTheyAreWritten) {
  ToolCallReader reader({"f"});
  EXPECT_TRUE(reader.Append(R"({"name": "f", "arguments": )").empty());
  const std::vector<AnswerPart> begun = reader.Append(R"({"x")");
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].name, "f");
  EXPECT_EQ(begun[0].arguments, R"({"x")");
  const std::vector<AnswerPart> more = reader.Append(": 1");
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].name, "");
  EXPECT_EQ(more[0].arguments, ": 1");
  EXPECT_EQ(reader.Append("}}")[0].arguments, "}");
  EXPECT_TRUE(reader.Finish().empty());
}

}  // namespace
}  // namespace baton::coordinator
