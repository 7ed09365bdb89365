// JSON to values and back, as Python's json does it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/base/status.h"
#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

// Strings are data, unless `trusted`. Keys too.
absl::StatusOr<Value> FromJson(Budget& budget, const nlohmann::ordered_json& json, bool trusted);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
absl::StatusOr<Text> ToJson(Budget& budget, const Value& value, const JsonStyle& style);

}  // namespace baton::engine::jinja
