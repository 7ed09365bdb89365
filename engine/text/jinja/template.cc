#include "engine/text/jinja/template.h"

#include <nlohmann/json.hpp>

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/json.h"
#include "engine/text/jinja/parser.h"

namespace baton::engine::jinja {
namespace {

// About what it takes as text; only its order of magnitude matters.
size_t SizeOf(const nlohmann::ordered_json& json, int nesting) {
  if (json.is_string()) return json.get_ref<const std::string&>().size();
  size_t size = 8;
  if (nesting > Budget::kMaxNesting) return size;
  for (const auto& [key, item] : json.items()) size += key.size() + SizeOf(item, nesting + 1);
  return size;
}

}  // namespace

absl::StatusOr<Template> Template::Parse(std::string_view source) {
  ASSIGN_OR_RETURN(Block block, ParseTemplate(source));
  return Template(std::move(block));
}

absl::StatusOr<Text> Template::Render(const nlohmann::ordered_json& input,
                                      bool (*is_trusted)(std::string_view name),
                                      const std::tm& now) const {
  if (!input.is_object()) return InvalidArgument("a template's input is an object");
  Interpreter interpreter(SizeOf(input, 0), now);
  for (const auto& [name, json] : input.items()) {
    ASSIGN_OR_RETURN(Value value, FromJson(interpreter.budget(), json, is_trusted(name)));
    interpreter.SetGlobal(name, std::move(value));
  }
  return interpreter.Run(block_);
}

}  // namespace baton::engine::jinja
