#include "coordinator/tool_calls.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/json.h"
#include "engine/base/quote.h"
#include "engine/sampling/grammar.h"

namespace baton::coordinator {

using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kMaxTools = 128;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kNotFound = std::string_view::npos;

struct ToolCallMarks {
  std::string_view open;
  std::string_view close;  // empty: nothing but white space comes after the calls
};
// Where a mark is a control token, which has no text, the call stands alone.
constexpr ToolCallMarks kToolCallMarks[] = {
    {"<tool_call>", "</tool_call>"},
    {"[TOOL_CALLS]", ""},
    {"<|python_tag|>", ""},
    {"<function_call>", "</function_call>"},
};

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

absl::StatusOr<std::string> ReadFunctionName(std::string_view place, const Json& value) {
  if (!value.is_object() || value.value("type", Json("function")) != "function" ||
      !value.contains("function") || !value["function"].is_object()) {
    return InvalidArgument("{}: expected {{\"type\": \"function\", \"function\": {{…}}}}", place);
  }
  const Json& function = value["function"];
  if (!function.contains("name") || !function["name"].is_string() ||
      !IsName(function["name"].get_ref<const std::string&>())) {
    return InvalidArgument(
        "{}.function.name: expected 1 to {} letters, digits, underscores, dashes and dots", place,
        kMaxNameBytes);
  }
  return function["name"].get<std::string>();
}

// A schema keeps its references when it becomes a part of another one.
void MoveReferences(const std::string& to, Json* schema) {
  if (schema->is_array()) {
    for (Json& item : *schema) MoveReferences(to, &item);
  }
  if (!schema->is_object()) return;
  for (auto& [key, value] : schema->items()) {
    if (key == "$ref" && value.is_string() && value.get_ref<std::string&>().starts_with('#')) {
      value = to + value.get<std::string>().substr(1);
    } else {
      MoveReferences(to, &value);
    }
  }
}

// The schema of a call of one of the functions. `parameters` without "type" mean an object.
Json SchemaOfCalls(const Json& tools, std::string_view only) {
  Json calls = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (!only.empty() && function["name"] != only) continue;
    Json parameters = function.value("parameters", Json{{"type", "object"}});
    if (parameters.is_object() && !parameters.contains("type") && !parameters.contains("$ref")) {
      parameters["type"] = "object";
    }
    MoveReferences(fmt::format("#/anyOf/{}/properties/arguments", calls.size()), &parameters);
    calls.push_back(
        {{"type", "object"},
         {"properties", {{"name", {{"const", function["name"]}}}, {"arguments", parameters}}},
         {"required", {"name", "arguments"}}});
  }
  return {{"anyOf", std::move(calls)}};
}

enum class Choice { kNone, kAuto, kRequired };

absl::StatusOr<Choice> ReadChoice(const Json& choice, const std::vector<std::string>& names,
                                  std::string* only) {
  if (choice == "none") return Choice::kNone;
  if (choice == "auto") return Choice::kAuto;
  if (choice == "required") return Choice::kRequired;
  if (!choice.is_object()) {
    return InvalidArgument("tool_choice: expected none, auto, required or a function");
  }
  ASSIGN_OR_RETURN(*only, ReadFunctionName("tool_choice", choice));
  if (std::find(names.begin(), names.end(), *only) == names.end()) {
    return InvalidArgument("tool_choice: {} is none of the tools", engine::Named(*only));
  }
  return Choice::kRequired;
}

size_t SkipSpaces(std::string_view text, size_t from) {
  return std::min(text.find_first_not_of(" \t\r\n", from), text.size());
}

// Bytes at the end of `text` that may be the beginning of a mark.
size_t PartOfMark(std::string_view text) {
  size_t longest = 0;
  for (const ToolCallMarks& marks : kToolCallMarks) {
    for (size_t length = std::min(marks.open.size() - 1, text.size()); length > longest; --length) {
      if (text.ends_with(marks.open.substr(0, length))) longest = length;
    }
  }
  return longest;
}

}  // namespace

absl::StatusOr<Tools> ReadTools(const Json& body) {
  Tools tools;
  const Json list = body.value("tools", Json(nullptr));
  const Json choice = body.value("tool_choice", Json(nullptr));
  if (!list.is_null() && !list.is_array()) {
    return InvalidArgument("tools: got {}, expected an array", list.type_name());
  }
  if (list.empty()) {
    if (choice.is_null() || choice == "none" || choice == "auto") return tools;
    return InvalidArgument("tool_choice: there are no tools to choose from");
  }
  if (list.size() > kMaxTools) {
    return InvalidArgument("tools: got {}, expected at most {}", list.size(), kMaxTools);
  }
  for (size_t i = 0; i < list.size(); ++i) {
    ASSIGN_OR_RETURN(tools.names.emplace_back(),
                     ReadFunctionName(fmt::format("tools[{}]", i), list[i]));
  }
  std::string only;
  Choice chosen = Choice::kAuto;
  if (!choice.is_null()) {
    ASSIGN_OR_RETURN(chosen, ReadChoice(choice, tools.names, &only));
  }
  if (chosen == Choice::kNone) return Tools{};
  tools.json = engine::JsonText(list);
  if (chosen == Choice::kRequired) {
    tools.schema = engine::JsonText(SchemaOfCalls(list, only));
    RETURN_IF_ERROR(Prefixed(engine::Grammar::FromJsonSchema(tools.schema).status(), "tools"));
  }
  return tools;
}

size_t ValueEnd::Find(std::string_view text) {
  for (; read_ < text.size(); ++read_) {
    const char c = text[read_];
    if (in_string_) {
      if (c == '\\') ++read_;  // what it escapes may come with the next piece
      in_string_ = c != '"';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (--depth_ <= 0) return read_ + 1;
    }
  }
  return std::string_view::npos;
}

std::vector<AnswerPart> ToolCallReader::Append(std::string_view text) {
  std::vector<AnswerPart> parts;
  pending_ += text;
  while (Step(&parts)) {
  }
  return parts;
}

std::vector<AnswerPart> ToolCallReader::Finish() {
  std::vector<AnswerPart> parts;
  if (!blank_ || in_call_ || SkipSpaces(pending_, 0) < pending_.size()) AddText(pending_, &parts);
  pending_.clear();
  return parts;
}

void ToolCallReader::AddText(std::string_view text, std::vector<AnswerPart>* parts) {
  if (text.empty()) return;
  if (parts->empty() || !parts->back().name.empty()) parts->emplace_back();
  parts->back().text += text;
}

bool ToolCallReader::Step(std::vector<AnswerPart>* parts) {
  return in_call_ ? ReadCall(parts) : ReadText(parts);
}

bool ToolCallReader::ReadText(std::vector<AnswerPart>* parts) {
  if (names_.empty()) {
    AddText(std::exchange(pending_, {}), parts);
    return false;
  }
  const size_t begin = SkipSpaces(pending_, 0);
  const std::string_view rest = std::string_view(pending_).substr(begin);
  if (!close_.empty()) {
    if (rest.size() < close_.size() && close_.starts_with(rest)) return false;
    if (rest.starts_with(close_)) pending_.erase(0, begin + close_.size());
    close_ = {};
    return true;
  }
  // White space before a call or between two says nothing.
  if (blank_ && rest.empty()) return false;
  size_t mark = kNotFound, mark_end = kNotFound;
  for (const ToolCallMarks& marks : kToolCallMarks) {
    const size_t at = pending_.find(marks.open);
    if (at >= mark) continue;
    mark = at;
    mark_end = at + marks.open.size();
    close_after_ = marks.close;
  }
  if (blank_ && mark == kNotFound && !called_ && (rest[0] == '{' || rest[0] == '[')) {
    if (PartOfMark(rest) == rest.size()) return false;
    mark = mark_end = begin;
    close_after_ = {};
  }
  const size_t end = mark != kNotFound ? mark : pending_.size() - PartOfMark(pending_);
  if (!blank_ || begin < end) {
    AddText(std::string_view(pending_).substr(0, end), parts);
    blank_ = false;
  }
  pending_.erase(0, end);
  in_call_ = mark != kNotFound;
  value_begin_ = in_call_ ? mark_end - end : 0;
  value_end_ = {};
  return in_call_;
}

bool ToolCallReader::ReadCall(std::vector<AnswerPart>* parts) {
  const size_t begin = SkipSpaces(pending_, value_begin_);
  if (begin == pending_.size()) return false;
  size_t length = 0;
  if (pending_[begin] == '{' || pending_[begin] == '[') {
    length = value_end_.Find(std::string_view(pending_).substr(begin));
    if (length == kNotFound) return false;
  }
  const std::vector<AnswerPart> calls = CallsIn(std::string_view(pending_).substr(begin, length));
  if (calls.empty()) {  // it only looked like one
    AddText(std::string_view(pending_).substr(0, begin + length), parts);
    blank_ = false;
  } else {
    parts->insert(parts->end(), calls.begin(), calls.end());
    close_ = close_after_;
    blank_ = called_ = true;
  }
  pending_.erase(0, begin + length);
  in_call_ = false;
  return true;
}

std::vector<AnswerPart> ToolCallReader::CallsIn(std::string_view json) const {
  const absl::StatusOr<Json> value = engine::ParseJson(json, "call");
  std::vector<AnswerPart> calls;
  if (!value.ok()) return calls;
  for (const Json& call : value->is_array() ? *value : Json::array({*value})) {
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return {};
    const std::string& name = call["name"].get_ref<const std::string&>();
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) return {};
    const auto arguments =
        call.contains("arguments") ? call.find("arguments") : call.find("parameters");
    if (arguments == call.end()) return {};
    // Some models write the arguments as the API does, as text.
    calls.push_back({.text = {},
                     .name = name,
                     .arguments = arguments->is_string() ? arguments->get<std::string>()
                                                         : engine::JsonText(*arguments)});
  }
  return calls;
}

}  // namespace baton::coordinator
