#include "coordinator/yaml_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "engine/base/quote.h"
#include "engine/base/units.h"

namespace baton::coordinator {

using engine::Named;

YamlValue::YamlValue(const std::string* file, std::string key, YAML::Node node, int32_t line)
    : file_(file), key_(std::move(key)), node_(std::move(node)), line_(line) {}

absl::Status YamlValue::Error(std::string_view what) const {
  return InvalidArgument("{}:{}: {}{}{}", *file_, line_, Named(key_), key_.empty() ? "" : ": ",
                         what);
}

std::string YamlValue::Describe() const {
  switch (node_.Type()) {
    case YAML::NodeType::Scalar:
      return Named(node_.Scalar());
    case YAML::NodeType::Sequence:
      return "a list";
    case YAML::NodeType::Map:
      return "a mapping";
    default:
      return "nothing";
  }
}

absl::StatusOr<std::string> YamlValue::String() const {
  if (!node_.IsScalar()) return Error(fmt::format("got {}, expected a text", Describe()));
  const std::string& raw = node_.Scalar();
  std::string text;
  for (size_t at = 0; at < raw.size();) {
    const size_t open = raw.find("${", at);
    text += raw.substr(at, open == std::string::npos ? open : open - at);
    if (open == std::string::npos) break;
    const size_t close = raw.find('}', open);
    if (close == std::string::npos)
      return Error(fmt::format("got {}, expected }} after ${{", Describe()));
    const std::string name = raw.substr(open + 2, close - open - 2);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr)
      return Error(fmt::format("environment variable {} is not set", Named(name)));
    text += value;
    at = close + 1;
  }
  return text;
}

absl::StatusOr<bool> YamlValue::Bool() const {
  ASSIGN_OR_RETURN(const std::string text, String());
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  return Error(fmt::format("got {}, expected true or false", Describe()));
}

absl::StatusOr<int64_t> YamlValue::Integer(int64_t least, int64_t most) const {
  ASSIGN_OR_RETURN(const std::string text, String());
  const absl::StatusOr<int64_t> number = engine::ParseInteger(text);
  if (number.ok() && *number >= least && *number <= most) return *number;
  return Error(
      fmt::format("got {}, expected a whole number from {} to {}", Describe(), least, most));
}

absl::StatusOr<double> YamlValue::Number(double least, double most) const {
  ASSIGN_OR_RETURN(const std::string text, String());
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && number >= least && number <= most) return number;
  return Error(fmt::format("got {}, expected a number from {} to {}", Describe(), least, most));
}

absl::StatusOr<size_t> YamlValue::OneOf(std::span<const std::string_view> names) const {
  ASSIGN_OR_RETURN(const std::string text, String());
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  return Error(fmt::format("got {}, expected {}", Describe(), fmt::join(names, ", ")));
}

absl::StatusOr<std::vector<YamlValue>> YamlValue::List(size_t most) const {
  std::vector<YamlValue> values;
  if (node_.IsNull()) return values;
  if (!node_.IsSequence()) return Error(fmt::format("got {}, expected a list", Describe()));
  if (node_.size() > most)
    return Error(fmt::format("{} entries, expected at most {}", node_.size(), most));
  for (size_t i = 0; i < node_.size(); ++i) {
    const YAML::Node item = node_[i];
    const int32_t line = item.Mark().line >= 0 ? item.Mark().line + 1 : line_;
    values.emplace_back(file_, fmt::format("{}[{}]", key_, i), item, line);
  }
  return values;
}

absl::StatusOr<std::vector<YamlValue::Entry>> YamlValue::Map() const {
  std::vector<Entry> entries;
  if (!node_.IsMap())
    return Error(fmt::format("got {}, expected a mapping of keys to values", Describe()));
  std::set<std::string> seen;
  for (const auto& pair : node_) {
    const int32_t line = pair.first.Mark().line + 1;
    if (!pair.first.IsScalar()) {
      return YamlValue(file_, key_, pair.first, line).Error("a key is no text");
    }
    const std::string& name = pair.first.Scalar();
    const std::string path = key_.empty() ? name : key_ + "." + name;
    YamlValue value(file_, path, pair.second, line);
    if (!seen.insert(name).second) return value.Error("the key stands here a second time");
    entries.push_back({name, std::move(value)});
  }
  return entries;
}

std::string UnknownKey(std::string_view key, std::span<const std::string_view> known) {
  if (known.empty() || key.size() > 64) return "unknown key";
  const auto nearest = std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
    return engine::EditDistance(key, a) < engine::EditDistance(key, b);
  });
  return fmt::format("unknown key; did you mean {}?", *nearest);
}

}  // namespace baton::coordinator
