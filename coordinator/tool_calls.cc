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

int JsonDepth::Add(char c) {
  if (in_string_) {
    in_string_ = escaped_ || c != '"';
    escaped_ = !escaped_ && c == '\\';
  } else if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    --depth_;
  }
  return depth_;
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
  if (!blank_ || SkipSpaces(pending_, 0) < pending_.size()) AddText(pending_, &parts);
  pending_.clear();
  return parts;
}

void ToolCallReader::AddText(std::string_view text, std::vector<AnswerPart>* parts) {
  if (text.empty()) return;
  if (parts->empty() || parts->back().text.empty()) parts->emplace_back();
  parts->back().text += text;
}

bool ToolCallReader::Step(std::vector<AnswerPart>* parts) {
  switch (place_) {
    case Place::kText:
      return ReadText(parts);
    case Place::kHead:
      return read_ == value_begin_ ? FindValue(parts) : ReadHead(parts);
    case Place::kArguments:
      return ReadArguments(parts);
    case Place::kTail:
      return ReadTail();
  }
  return false;
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
  if (mark == kNotFound) return false;
  place_ = Place::kHead;
  list_ = List::kNone;
  value_begin_ = read_ = mark_end - end;
  return true;
}

// Looks for the object of a call, or for the end of a list of them.
bool ToolCallReader::FindValue(std::vector<AnswerPart>* parts) {
  value_begin_ = read_ = SkipSpaces(pending_, value_begin_);
  if (value_begin_ == pending_.size()) return false;
  const char c = pending_[value_begin_];
  if (c == '{') {
    depth_ = {};
    depth_.Add(c);
    ++read_;
    began_arguments_ = false;
  } else if (c == '[' && list_ == List::kNone) {
    list_ = List::kOpened;
    value_begin_ = ++read_;
  } else if (c == ',' && list_ == List::kHasCalls) {
    pending_.erase(0, value_begin_ + 1);
    value_begin_ = read_ = 0;
  } else if (c == ']' && list_ == List::kHasCalls) {
    pending_.erase(0, value_begin_ + 1);
    EndCalls();
  } else {
    GiveUp(value_begin_, parts);
  }
  return true;
}

bool ToolCallReader::ReadHead(std::vector<AnswerPart>* parts) {
  while (read_ < pending_.size()) {
    const char c = pending_[read_++];
    const int depth = depth_.Add(c);
    const std::string_view value =
        std::string_view(pending_).substr(value_begin_, read_ - value_begin_);
    if (depth == 0) {
      AnswerPart call = CallIn(value);
      if (call.name.empty()) {
        GiveUp(read_, parts);
      } else {
        parts->push_back(std::move(call));
        pending_.erase(0, read_);
        EndCall();
      }
      return true;
    }
    if (c != '{' || depth != 2 || began_arguments_) continue;
    began_arguments_ = true;
    std::string name = FunctionOf(value.substr(0, value.size() - 1));
    if (name.empty()) continue;
    parts->push_back({.text = {}, .name = std::move(name), .arguments = "{"});
    pending_.erase(0, read_);
    read_ = 0;
    place_ = Place::kArguments;
    return true;
  }
  return false;
}

bool ToolCallReader::ReadArguments(std::vector<AnswerPart>* parts) {
  if (pending_.empty()) return false;
  while (read_ < pending_.size() && depth_.depth() > 1) depth_.Add(pending_[read_++]);
  if (parts->empty() || !parts->back().text.empty()) parts->emplace_back();
  parts->back().arguments += std::string_view(pending_).substr(0, read_);
  pending_.erase(0, read_);
  read_ = 0;
  if (depth_.depth() > 1) return false;
  place_ = Place::kTail;
  return true;
}

bool ToolCallReader::ReadTail() {
  while (read_ < pending_.size() && depth_.depth() > 0) depth_.Add(pending_[read_++]);
  pending_.erase(0, read_);
  read_ = 0;
  if (depth_.depth() > 0) return false;
  EndCall();
  return true;
}

void ToolCallReader::EndCall() {
  blank_ = called_ = true;
  if (list_ == List::kNone) return EndCalls();
  list_ = List::kHasCalls;
  place_ = Place::kHead;
  value_begin_ = read_ = 0;
}

void ToolCallReader::EndCalls() {
  place_ = Place::kText;
  close_ = close_after_;
}

void ToolCallReader::GiveUp(size_t bytes, std::vector<AnswerPart>* parts) {
  AddText(std::string_view(pending_).substr(0, bytes), parts);
  pending_.erase(0, bytes);
  blank_ = false;
  place_ = Place::kText;
}

AnswerPart ToolCallReader::CallIn(std::string_view json) const {
  const absl::StatusOr<Json> call = engine::ParseJson(json, "call");
  if (!call.ok() || !call->is_object()) return {};
  const Json name = call->value("name", Json());
  if (!name.is_string()) return {};
  const std::string& function = name.get_ref<const std::string&>();
  if (std::ranges::find(names_, function) == names_.end()) return {};
  const auto arguments =
      call->contains("arguments") ? call->find("arguments") : call->find("parameters");
  if (arguments == call->end()) return {};
  // Some models write the arguments as the API does, as text.
  return {.text = {},
          .name = function,
          .arguments = arguments->is_string() ? arguments->get<std::string>()
                                              : engine::JsonText(*arguments)};
}

std::string ToolCallReader::FunctionOf(std::string_view head) const {
  // The object as it would be if its arguments, and nothing else, were this text.
  const AnswerPart call = CallIn(fmt::format("{}\"\\u0000\"}}", head));
  return call.arguments == std::string_view("\0", 1) ? call.name : std::string();
}

}  // namespace baton::coordinator
