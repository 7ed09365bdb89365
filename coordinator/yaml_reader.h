// Reads a YAML mapping by a table of its keys. An error names file, line and key; an unknown key
// also the nearest known one.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace baton::coordinator {

// A value and where it stands.
class YamlValue {
 public:
  // `file` must outlive the value. `line` stands in errors where the node has none of its own.
  YamlValue(const std::string* file, std::string key, YAML::Node node, int32_t line);

  int32_t line() const { return line_; }
  const std::string& key() const { return key_; }
  const std::string& file() const { return *file_; }
  absl::Status Error(std::string_view what) const;  // InvalidArgument "FILE:LINE: KEY: WHAT"
  absl::Status Error(const absl::Status& status) const { return Error(Message(status)); }

  // A scalar, with ${NAME} replaced by the environment's variable.
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<bool> Bool() const;
  absl::StatusOr<int64_t> Integer(int64_t least, int64_t most) const;
  absl::StatusOr<double> Number(double least, double most) const;
  // One of `names`: its index.
  absl::StatusOr<size_t> OneOf(std::span<const std::string_view> names) const;
  absl::StatusOr<std::vector<YamlValue>> List(size_t most) const;
  struct Entry;
  absl::StatusOr<std::vector<Entry>> Map() const;  // each key once

 private:
  std::string Describe() const;

  const std::string* file_;
  std::string key_;  // "workers[2].memory"
  YAML::Node node_;
  int32_t line_;
};

struct YamlValue::Entry {
  std::string name;
  YamlValue value;
};

template <typename T>
struct YamlField {
  std::string_view key;
  absl::Status (*read)(const YamlValue& value, T* to);
};

// "unknown key; did you mean workers?"
std::string UnknownKey(std::string_view key, std::span<const std::string_view> known);

template <typename T>
absl::Status ReadYamlMap(const YamlValue& map, std::span<const YamlField<T>> fields, T* to) {
  ASSIGN_OR_RETURN(const std::vector<YamlValue::Entry> entries, map.Map());
  for (const YamlValue::Entry& entry : entries) {
    const YamlField<T>* field = nullptr;
    std::vector<std::string_view> known;
    for (const YamlField<T>& candidate : fields) {
      known.push_back(candidate.key);
      if (candidate.key == entry.name) field = &candidate;
    }
    if (field == nullptr) return entry.value.Error(UnknownKey(entry.name, known));
    RETURN_IF_ERROR(field->read(entry.value, to));
  }
  return absl::OkStatus();
}

}  // namespace baton::coordinator
