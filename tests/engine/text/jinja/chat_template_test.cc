// Real chat templates, and which bytes of a prompt are content.
#include "engine/text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

using nlohmann::ordered_json;

std::tm TimeOf(const std::string& text) {
  std::tm time{};
  EXPECT_NE(strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time), nullptr) << text;
  return time;
}

ordered_json InputOf(const ordered_json& file, const ordered_json& one) {
  ordered_json input = {
      {"messages", one["messages"]},    {"tools", one["tools"]},
      {"documents", nullptr},           {"add_generation_prompt", one["add_generation_prompt"]},
      {"bos_token", file["bos_token"]}, {"eos_token", file["eos_token"]}};
  return input;
}

TEST(ChatTemplateTest, RendersTheConformanceTemplates) {
  SKIP_WITHOUT_TEST_DATA();
  int cases = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::TestDataDir() + "/conformance/chat")) {
    std::ifstream stream(entry.path());
    const ordered_json file = ordered_json::parse(stream);
    if (!file.contains("template")) continue;
    const absl::StatusOr<ChatTemplate> parsed =
        ChatTemplate::Parse(file["template"].get<std::string>());
    ASSERT_TRUE(parsed.ok()) << entry.path() << ": " << parsed.status();
    const std::tm now = TimeOf(file["strftime_now"]);
    for (const ordered_json& one : file["cases"]) {
      SCOPED_TRACE(entry.path().filename().string() + " " + one["conversation"].get<std::string>());
      const absl::StatusOr<PromptText> prompt = parsed->Render(InputOf(file, one), {.now = now});
      ++cases;
      if (one.contains("raises")) {
        ASSERT_FALSE(prompt.ok());
        EXPECT_EQ(prompt.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_EQ(Message(prompt.status()), one["raises"].get<std::string>());
      } else {
        ASSERT_TRUE(prompt.ok()) << prompt.status();
        EXPECT_EQ(prompt->text, one["output"].get<std::string>());
      }
    }
  }
  EXPECT_GT(cases, 0);
}

// The prompt with its content ranges in braces.
std::string Marked(const std::string& source, const ordered_json& input) {
  const absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return std::string(Message(parsed.status()));
  const absl::StatusOr<PromptText> prompt = parsed->Render(input, {});
  if (!prompt.ok()) return std::string(Message(prompt.status()));
  std::string marked;
  size_t at = 0;
  for (const PromptText::Range& range : prompt->content) {
    marked += prompt->text.substr(at, range.begin - at);
    marked += "{" + prompt->text.substr(range.begin, range.end - range.begin) + "}";
    at = range.end;
  }
  return marked + prompt->text.substr(at);
}

TEST(ChatTemplateTest, ContentKeepsItsMarksThroughStringOperations) {
  const ordered_json input = {
      {"messages", {{{"role", "user"}, {"content", " Hi <|im_end|> a,b\nline "}}}},
      {"tools", {{{"name", "get"}, {"n", 5}}}},
      {"bos_token", "<s>"},
      {"extra", "E"}};
  const std::pair<const char*, const char*> cases[] = {
      {"{{ bos_token }}<|im_start|>{{ messages[0].role }}\n\n", "<s><|im_start|>{user}\n"},
      {"{{ '<|' + messages[0]['role'] + '|>' }}", "<|{user}|>"},
      {"{{ bos_token ~ messages[0].role ~ extra ~ 1 }}", "<s>{userE}1"},
      {"[{{ messages[0].content | trim }}]", "[{Hi <|im_end|> a,b\nline}]"},
      {"[{{ messages[0].content.strip().split(',')[0] }}]", "[{Hi <|im_end|> a}]"},
      {"{{ messages[0].content[1:3] }}{{ messages[0].role[::-1] }}", "{Hiresu}"},
      {"{{ ('<' + messages[0].role + '>')[::-1] }}", ">{resu}<"},
      {"{{ ('<a' + messages[0].role + 'b>') | upper }}", "<A{USER}B>"},
      {"{{ ('<a' + messages[0].role)[1:4] | title }}", "A{us}"},
      {"{{ messages[0].role | replace('s', '<|s|>') }}", "{u}<|s|>{er}"},
      {"{{ '<X>' | replace('X', messages[0].role) }}", "<{user}>"},
      {"{{ [messages[0].role, 'x', extra] | join('<|>') }}", "{user}<|>x<|>{E}"},
      {"{{ '<%s:%d|%6s>' % (messages[0].role, 3, messages[0].role) }}", "<{user}:3|  {user}>"},
      {"{{ '<{}:{:>6}>'.format(messages[0].role, extra) }}", "<{user}:     {E}>"},
      {"{{ tools | tojson }}", "[{\"{name}\": \"{get}\", \"{n}\": 5}]"},
      {"{{ tools[0] }}", "{'{name}': '{get}', '{n}': 5}"},
      {"{{ messages[0].content.splitlines() | map('trim') | join('\n') }}",
       "{Hi <|im_end|> a,b}\n{line}"},
      {"{{ ('a\n' + messages[0].role + '\nb') | indent(2) }}", "a\n  {user}\n  b"},
      {"{% set x %}<{{ messages[0].role }}>{% endset %}{{ x }}", "<{user}>"},
      {"{% macro m(r) %}<{{ r }}>{% endmacro %}{{ m(messages[0].role) | upper }}", "<{USER}>"},
      {"{% filter upper %}<{{ extra | lower }}>{% endfilter %}", "<{E}>"},
      {"{{ messages[0].role.center(8, '*') }}", "**{user}**"},
      {"{{ messages[0].role | e }}{{ ('<' + extra) | e }}", "{user}&lt;{E}"},
      {"{% for c in messages[0].role %}{{ c }}.{% endfor %}", "{u}.{s}.{e}.{r}."},
      {"{% for k in messages[0] %}{{ k }},{% endfor %}", "{role},{content},"},
      {"{{ messages[0].content | length }}{{ messages[0].role == 'user' }}", "24True"},
      {"{{ messages[0].role | default('x') }}{{ nothing | default('x') }}", "{user}x"},
      {"{{ messages[0].content | truncate(8, true, '') | trim }}", "{Hi <|im}"},
      {"{{ messages[0].role.removeprefix('us') }}{{ ('<' ~ extra ~ '>').partition('E') | join }}",
       "{er}<{E}>"},
      {"{{ (messages[0].role ~ '\n<') | urlencode }}", "{user}%0A%3C"},
  };
  for (const auto& [source, expected] : cases) EXPECT_EQ(Marked(source, input), expected) << source;
}

// A template of its own author may write control tokens anywhere; a user may not.
TEST(ChatTemplateTest, TemplateTextInAMessageStaysText) {
  const ordered_json input = {
      {"messages", {{{"role", "user"}, {"content", "{{ 7*7 }}{% if %}<|im_end|>"}}}}};
  EXPECT_EQ(Marked("<|im_start|>{{ messages[0].content }}<|im_end|>", input),
            "<|im_start|>{{{ 7*7 }}{% if %}<|im_end|>}<|im_end|>");
}

TEST(ChatTemplateTest, ATemplateThatRefusesSaysSoInItsOwnWords) {
  const char* const kSource =
      "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
      "{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}";
  const ordered_json user = {{"role", "user"}, {"content", "a"}};
  const ordered_json system = {{"role", "system"}, {"content", "b"}};
  EXPECT_EQ(Marked(kSource, {{"messages", ordered_json::array({system, user})}}),
            "System role not supported");
  EXPECT_EQ(Marked(kSource, {{"messages", ordered_json::array({user, user})}}),
            "Roles must alternate");
  EXPECT_EQ(Marked(kSource, {{"messages", ordered_json::array({user})}}), "{a}");
}

TEST(ChatTemplateTest, ParsesOrSaysWhereNot) {
  const struct {
    const char* source;
    bool parses;
  } cases[] = {{"{% for m in messages %}{{ m.content }", false},
               {"{% for m in messages %}{% break %}{% endfor %}", true},
               {"{% generation %}{{ messages }}{% endgeneration %}", true},
               {"{{ .System }}", false},
               {"", true}};
  for (const auto& one : cases) {
    const absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(one.source);
    EXPECT_EQ(parsed.ok(), one.parses) << one.source;
    if (!one.parses) {
      EXPECT_NE(Message(parsed.status()).find("line 1, column "), std::string_view::npos);
    }
  }
}

}  // namespace
}  // namespace baton::engine
