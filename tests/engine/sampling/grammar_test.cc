#include "engine/sampling/grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "engine/sampling/token_mask.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

std::shared_ptr<const Grammar> Compiled(std::string_view schema) {
  const auto grammar = Grammar::FromJsonSchema(schema);
  EXPECT_TRUE(grammar.ok()) << schema << ": " << grammar.status();
  return grammar.ok() ? *grammar : nullptr;
}

bool Accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  GrammarState state(grammar);
  return state.Advance(text) && state.complete();
}

struct SchemaCase {
  std::string_view schema;
  std::vector<std::string_view> accepted, refused;
};

const SchemaCase kCases[] = {
    {R"({})",
     {R"({})", R"([])", R"("a")", R"(-1.5e+10)", R"(null)", R"({"a": [1, {"b": "c"}], "d": true})",
      R"([ [ ] , 0 ])", R"("\u00e9\n\"")", "\"\xC3\xA9\"", R"({"a":1,"b":2})", "0", "12"},
     {"",        " 1",       "01",          "1.",       "-",
      "1e",      "+1",       "tru",         "nul",      "[1,]",
      "{\"a\"}", "{\"a\":}", "{,}",         "[",        "\"",
      "\"\n\"",  R"("\x")",  R"("\ud800")", "\"\xC3\"", "\"\xED\xA0\x80\"",
      "1 ",      "{} ",      R"({"a":1,})", "1e999"}},
    {R"({"type": "object"})", {"{}", R"({"x": 1})"}, {"[]", "1", "null"}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
         "required": ["a"]})",
     {R"({"a":1})", R"({"a": 1, "b": "x"})", "{\n  \"a\": -5\n}"},
     {"{}", R"({"b":"x"})", R"({"b":"x","a":1})", R"({"a":1.5})", R"({"a":1,"c":2})", R"({"a":1,)",
      R"({"a":"1"})", R"({"a":1,"a":2})"}},
    {R"({"type": "object", "properties": {"ab": {"type": "integer"}},
         "additionalProperties": {"type": "boolean"}})",
     {"{}", R"({"ab":1})", R"({"ab":1,"x":true})", R"({"x":true,"y":false})", R"({"a":true})",
      R"({"abc":true})", R"({"":true})"},
     {R"({"ab":true})", R"({"x":1})", R"({"x":true,"ab":1})", R"({"\u0061b":true})"}},
    {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
     {"[1]", "[1,2,3]", "[ 1 , 2 ]"},
     {"[]", "[1,2,3,4]", "[1.5]", "[1,]", "[,1]"}},
    {R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {R"("ab")", "\"äöü\"", R"("\n\n")"},
     {R"("a")", R"("abcd")", R"("")"}},
    {R"({"enum": ["red", "green", 5, null, {"a": [1]}]})",
     {R"("red")", R"("green")", "5", "null", R"({"a":[1]})"},
     {R"("re")", R"("blue")", "6", R"("redd")"}},
    {R"({"const": "x\"é"})", {"\"x\\\"é\""}, {R"("x")"}},
    {R"({"type": ["integer", "null"]})", {"1", "null", "-0"}, {"1.0", "1e3", "true"}},
    {R"({"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]},
                   {"type": "object", "properties": {"k": {"const": "b"}, "v": {"type": "null"}}, "required": ["k", "v"]}]})",
     {"1", R"({"k":"a"})", R"({"k":"b","v":null})"},
     {R"({"k":"b"})", R"({"k":"a","v":null})", R"({"k":"c"})"}},
    {R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
         "v": {"type": "number"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
         "required": ["v", "next"], "additionalProperties": false}}})",
     {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2.5,"next":null}})"},
     {R"({"v":1})", R"({"v":1,"next":{}})"}},
    {R"({"anyOf": [{"type": "boolean"}, {"$ref": "#"}]})", {"true", "false"}, {"null"}},
    {R"({"type": "boolean", "title": "t", "description": "d", "default": true})", {"true"}, {"1"}},
    {R"({"type": "object", "required": ["z"]})", {R"({"z":1})", R"({"z":1,"y":[]})"}, {"{}"}},
};

TEST(GrammarTest, AcceptsWhatFitsTheSchema) {
  for (const SchemaCase& one : kCases) {
    const auto grammar = Compiled(one.schema);
    ASSERT_NE(grammar, nullptr);
    for (std::string_view text : one.accepted) {
      EXPECT_TRUE(Accepts(grammar, text)) << one.schema << "\n" << text;
    }
    for (std::string_view text : one.refused) {
      EXPECT_FALSE(Accepts(grammar, text)) << one.schema << "\n" << text;
    }
  }
}

TEST(GrammarTest, RefusesSchemasByName) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"{", "schema: [json.exception.parse_error"},
      {"[]", "# is not an object"},
      {R"({"type": "strin"})", "type 'strin' is not known"},
      {R"({"properties": {"a": {"type": "string", "pattern": "^a$"}}})",
       "#/properties/a: keyword 'pattern' is not supported"},
      {R"({"type": "integer", "minimum": 1})", "keyword 'minimum' is not supported"},
      {R"({"$ref": "#/$defs/x"})", "'#/$defs/x' is not there"},
      {R"({"$ref": "http://x/y"})", "only references into the schema itself"},
      {R"({"$ref": "#"})", "no value fits"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", "minItems is over maxItems"},
      {R"({"type": "object", "properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
       "'b' is required, but not allowed"},
      {R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})",
       "no value fits"},
      {R"({"enum": []})", "enum is not a list of values"},
      {"false", "no value fits"},
      {R"({"anyOf": [{}], "required": ["a"]})", "'required' beside 'anyOf' is not supported"},
      {R"({"type": "string", "enum": ["a"], "minLength": 2})", "'minLength' beside 'enum'"},
  };
  for (const auto& [schema, message] : cases) {
    const auto grammar = Grammar::FromJsonSchema(schema);
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_THAT(std::string(Message(grammar.status())), HasSubstr(std::string(message))) << schema;
  }
}

TEST(GrammarTest, BoundsNestingAndSpaces) {
  const auto any = Compiled("{}");
  const std::string deep(Grammar::kMaxDepth, '['), too_deep(Grammar::kMaxDepth + 1, '[');
  EXPECT_TRUE(GrammarState(any).Advance(deep));
  EXPECT_FALSE(GrammarState(any).Advance(too_deep));
  EXPECT_TRUE(GrammarState(any).Advance("[" + std::string(Grammar::kMaxSpaces, ' ') + "1"));
  EXPECT_FALSE(GrammarState(any).Advance("[" + std::string(Grammar::kMaxSpaces + 1, ' ') + "1"));
}

// Single bytes, so that all can be said, and longer tokens that cross what the grammar tells apart.
std::vector<std::string> Vocabulary() {
  std::vector<std::string> tokens = {""};  // 0: ends the answer
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* token :
       {"{\"", "\":",  "\": \"", "\",\"",  "\", \"", "\"}",  "}}",       "]}",   "[{",  "[[",
        "], ", "true", "false",  "null",   "tr",     "ue",   " ",        "  ",   ",\n", "a",
        "ab",  "abc",  "hello",  " world", "é",      "你好", "\"a",      "k\"",  "123", "1.",
        "-1",  "0.5",  "e+",     "\\n",    "\\u00",  "\\\"", "\xE4\xBD", "\xA0", "}",   "{}"}) {
    tokens.emplace_back(token);
  }
  return tokens;
}

// The subset of JSON schema, checked the plain way.
bool IsValid(const OrderedJson& root, const OrderedJson& schema, const OrderedJson& value) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (schema.contains("$ref")) {
    const std::string target = schema["$ref"];
    return IsValid(root, root.at(OrderedJson::json_pointer(target.substr(1))), value);
  }
  if (schema.contains("const")) return value == schema["const"];
  const auto fits_any = [&](const OrderedJson& schemas) {
    return std::any_of(schemas.begin(), schemas.end(),
                       [&](const OrderedJson& each) { return IsValid(root, each, value); });
  };
  if (schema.contains("enum"))
    return std::find(schema["enum"].begin(), schema["enum"].end(), value) != schema["enum"].end();
  if (schema.contains("anyOf")) return fits_any(schema["anyOf"]);
  if (schema.contains("type") && schema["type"].is_array()) {
    return std::any_of(schema["type"].begin(), schema["type"].end(), [&](const OrderedJson& type) {
      OrderedJson single = schema;
      single["type"] = type;
      return IsValid(root, single, value);
    });
  }
  const std::string type = schema.value("type", "");
  if (type == "object" || (type.empty() && schema.contains("properties"))) {
    if (!value.is_object()) return false;
    const OrderedJson properties = schema.value("properties", OrderedJson::object());
    for (const OrderedJson& key : schema.value("required", OrderedJson::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
    for (const auto& [key, item] : value.items()) {
      const OrderedJson rule = properties.contains(key)
                                   ? properties[key]
                                   : schema.value("additionalProperties", OrderedJson(true));
      if (!IsValid(root, rule, item)) return false;
    }
    return true;
  }
  if (type == "array") {
    if (!value.is_array() || value.size() < schema.value("minItems", 0u) ||
        value.size() > schema.value("maxItems", 99999u))
      return false;
    return std::all_of(value.begin(), value.end(), [&](const OrderedJson& item) {
      return IsValid(root, schema.value("items", OrderedJson(true)), item);
    });
  }
  if (type == "string") {
    if (!value.is_string()) return false;
    const std::string text = value;
    const size_t length = static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    return length >= schema.value("minLength", 0u) && length <= schema.value("maxLength", 99999u);
  }
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return true;
}

TEST(GrammarTest, WalksUnderTheMaskGiveValidJson) {
  const std::vector<std::string> vocabulary = Vocabulary();
  const std::vector<TokenId> ends = {0};
  const auto tokens = std::make_shared<TokenTree>(vocabulary, ends);
  std::mt19937 random(7);
  for (const SchemaCase& one : kCases) {
    const auto grammar = Compiled(one.schema);
    const OrderedJson schema = OrderedJson::parse(one.schema);
    TokenMasker masker(grammar, tokens);
    for (int walk = 0; walk < 20; ++walk) {
      GrammarState state(grammar);
      std::string text;
      for (int step = 0;; ++step) {
        ASSERT_LT(step, 20000) << one.schema << "\n" << text;
        const std::vector<uint32_t> mask = masker.Mask(state);
        std::vector<TokenId> allowed;
        for (size_t id = 0; id < vocabulary.size(); ++id) {
          const bool is_allowed = (mask[id / 32] >> (id % 32) & 1) != 0;
          // The mask says exactly what the grammar would say of each token.
          GrammarState tried = state;
          const bool fits = id == 0 ? state.complete() : tried.Advance(vocabulary[id]);
          ASSERT_EQ(is_allowed, fits) << one.schema << "\n" << text << "\n" << vocabulary[id];
          if (is_allowed) allowed.push_back(static_cast<TokenId>(id));
        }
        ASSERT_FALSE(allowed.empty()) << one.schema << "\n" << text;
        // Long answers are steered to their end by what closes.
        TokenId next = allowed[random() % allowed.size()];
        if (step > 40) {
          for (const char* closing : {"\"", "}", "]", ":", "1", "\"a"}) {
            for (TokenId id : allowed) {
              if (vocabulary[id] == closing) next = id;
            }
            if (vocabulary[next] == closing) break;
          }
        }
        if (step > 40 && state.complete()) next = 0;
        if (next == 0) break;
        text += vocabulary[next];
        ASSERT_TRUE(state.Advance(vocabulary[next]));
      }
      const OrderedJson value = OrderedJson::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << one.schema << "\n" << text;
      EXPECT_TRUE(IsValid(schema, schema, value)) << one.schema << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace baton::engine
