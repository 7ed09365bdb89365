// Equal to Python's jinja2: cases.json, written by make_cases.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/text/chat_template.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

std::tm FixedTime() {
  std::tm time{};
  time.tm_year = 125;
  time.tm_mday = 15;
  time.tm_wday = 3;
  time.tm_yday = 14;
  time.tm_hour = 12;
  return time;
}

absl::StatusOr<PromptText> Render(std::string_view source, const ordered_json& input) {
  ASSIGN_OR_RETURN(const ChatTemplate parsed, ChatTemplate::Parse(source));
  return parsed.Render(input, {.now = FixedTime()});
}

std::string RenderedOrError(std::string_view source,
                            const ordered_json& input = ordered_json::object()) {
  const absl::StatusOr<PromptText> rendered = Render(source, input);
  return rendered.ok() ? rendered->text : std::string(Message(rendered.status()));
}

TEST(JinjaTest, RendersAsPythonDoes) {
  std::ifstream file(BATON_JINJA_CASES);
  const ordered_json all = ordered_json::parse(file);
  ASSERT_GT(all["cases"].size(), 200u);
  for (const ordered_json& one : all["cases"]) {
    const std::string source = one["template"];
    SCOPED_TRACE(source);
    if (one.value("fails", "") == "parse") {
      const absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
      ASSERT_FALSE(parsed.ok());
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(Message(parsed.status())), HasSubstr("line 1, column "));
      continue;
    }
    const absl::StatusOr<PromptText> rendered = Render(source, all["variables"]);
    if (one.contains("fails")) {
      EXPECT_FALSE(rendered.ok()) << rendered->text;
    } else if (rendered.ok()) {
      EXPECT_EQ(rendered->text, one["output"].get<std::string>());
    } else {
      ADD_FAILURE() << rendered.status() << "\nexpected: " << one["output"];
    }
  }
}

TEST(JinjaTest, ErrorsSayWhere) {
  const struct {
    std::string_view source, message;
  } cases[] = {
      {"a\n  {% if x %}\n{{ 'é' + }}",
       "chat template: line 3, column 10: unexpected 'end of print statement'"},
      {"{% for m in messages %}{{ m.content }", "chat template: line 1, column 37: unexpected '}'"},
      {"{{ .System }}", "chat template: line 1, column 4: unexpected '.'"},
      {"{% if x %}",
       "chat template: line 1, column 11: Unexpected end of template. Jinja was "
       "looking for the following tags: 'elif' or 'else' or 'endif'."},
      {"\n\n {{ a.b.c }}", "chat template: line 3, column 6: 'a' is undefined"},
      {"{{ 1 + 'a' }}",
       "chat template: line 1, column 6: unsupported operand type(s) for +: 'int' and 'str'"},
      {"{{ raise_exception('Only user and assistant roles!') }}", "Only user and assistant roles!"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(RenderedOrError(one.source), one.message) << one.source;
  }
}

TEST(JinjaTest, StaysWithinLimits) {
  const auto repeated = [](std::string_view part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  const std::string sources[] = {
      "{{ 'a' * 1000000000000 }}",
      "{{ [0] * 1000000000000 }}",
      "{{ range(1000000000000) | list }}",
      "{{ 'a' | center(99999999999) }}",
      "{{ '%99999999d' % 1 }}",
      "{{ '{:99999999}'.format(1) }}",
      "{{ 'a'.ljust(99999999999) }}",
      "{{ [1, [2]] | tojson(indent=99999999999) }}",
      "{{ [1] | batch(99999999999, 'x') | list }}",
      "{{ 'a\nb' | indent(99999999999) }}",
      "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x "
      "%}{% endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
      "{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}",
      "{{ 1" + repeated(" + 1", 100000) + " }}",
      "{{ x" + repeated(".x", 100000) + " }}",
      "{{ " + repeated("not ", 100000) + "x }}",
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ x" + repeated("|upper", 100000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 100000) + " }}",
      repeated("{% if x %}", 100000),
      repeated("{% for x in y %}", 100000),
  };
  for (const std::string& source : sources) {
    EXPECT_FALSE(Render(source, ordered_json::object()).ok()) << source.substr(0, 100);
  }
}

// All of Unicode at once: the FNV-1a hash of upper case, lower case and classes, as Python 3.11 has
// them.
TEST(JinjaTest, KnowsCharactersAsPythonDoes) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    jinja::AppendUtf8(c, text);
    for (char byte : jinja::Upper(text) + jinja::Lower(text)) add(static_cast<uint8_t>(byte));
    add(static_cast<uint8_t>(jinja::IsAlpha(c) | jinja::IsDigit(c) << 1 | jinja::IsSpace(c) << 2 |
                             jinja::IsLower(c) << 3 | jinja::IsUpper(c) << 4 |
                             jinja::IsPrintable(c) << 5));
  }
  EXPECT_EQ(hash, 0xfd66f603384b0c2b);
}

TEST(JinjaTest, KeepsNothingBetweenRenderings) {
  const absl::StatusOr<ChatTemplate> parsed =
      ChatTemplate::Parse("{% set ns.x = 1 if ns is defined else 2 %}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->Render(ordered_json::object(), {}).ok());
  const absl::StatusOr<ChatTemplate> counter = ChatTemplate::Parse(
      "{% if x is defined %}{{ x }}{% endif %}{% set x = 1 %}{{ x }}{% set ns = namespace() %}"
      "{{ ns.seen is defined }}{% set ns.seen = 1 %}");
  ASSERT_TRUE(counter.ok());
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(counter->Render(ordered_json::object(), {})->text, "1False");
}

}  // namespace
}  // namespace baton::engine
