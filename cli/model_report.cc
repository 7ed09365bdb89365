#include "cli/model_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "cli/gguf_json.h"
#include "engine/base/json.h"
#include "engine/base/quote.h"

namespace baton::cli {
namespace {

using engine::GgufModel;
using engine::GgufType;
using engine::GgufValue;
using engine::Metadata;
using engine::TensorInfo;
using Json = nlohmann::ordered_json;

constexpr size_t kElementsShown = 8;
constexpr size_t kTextBytesShown = 100;

// Hyperparameters that say most about a model, by their GGUF names behind "ARCHITECTURE.".
struct ShapeRow {
  std::string_view key;
  std::string_view label;
};
constexpr ShapeRow kShapeRows[] = {
    {"block_count", "layers"},
    {"embedding_length", "hidden size"},
    {"feed_forward_length", "FFN size"},
    {"attention.head_count", "heads"},
    {"attention.head_count_kv", "KV heads"},
    {"expert_count", "experts"},
    {"expert_used_count", "experts used"},
    {"context_length", "context"},
    {"vocab_size", "vocabulary"},
};

std::span<const int64_t> ShapeOf(const TensorInfo& tensor) {
  return {tensor.ne.data(), static_cast<size_t>(tensor.num_dims)};
}

struct Totals {
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;

  void Add(const TensorInfo& tensor) {
    ++tensors;
    elements += static_cast<uint64_t>(tensor.num_elements());
    bytes += tensor.bytes;
  }
  std::optional<double> bits_per_weight() const {
    if (elements == 0) return std::nullopt;
    return static_cast<double>(bytes) * 8 / static_cast<double>(elements);
  }
};

Totals TotalsOf(const GgufModel& model) {
  Totals totals;
  for (const TensorInfo& tensor : model.tensors()) totals.Add(tensor);
  return totals;
}

std::optional<std::string_view> StringAt(const Metadata& metadata, std::string_view key) {
  const auto text = metadata.FindString(key);
  return text.ok() ? *text : std::nullopt;
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json PartsJson(const GgufModel& model) {
  Json parts = Json::array();
  for (const GgufModel::Part& part : model.parts()) {
    parts.push_back({{"file", part.path}, {"bytes", part.bytes}});
  }
  return parts;
}

Json EntryJson(const GgufValue& value, size_t max_elements) {
  Json entry = {{"type", engine::GgufTypeName(value.type)}};
  if (value.type == GgufType::kArray) {
    entry["element_type"] = engine::GgufTypeName(value.element);
    entry["count"] = value.count;
  }
  entry["value"] = ValueJson(value, max_elements);
  return entry;
}

Json MetadataJson(const Metadata& metadata, ReportOptions options) {
  const size_t max_elements = options.full ? SIZE_MAX : kElementsShown;
  Json json = Json::object();
  for (const Metadata::Entry& entry : metadata.entries()) {
    // push_back: ordered_json looks through all keys to find one.
    json.push_back({std::string(entry.key), EntryJson(entry.value, max_elements)});
  }
  return json;
}

Json TensorsJson(const GgufModel& model) {
  Json tensors = Json::array();
  for (const TensorInfo& tensor : model.tensors()) {
    tensors.push_back({{"name", tensor.name},
                       {"shape", ShapeOf(tensor)},
                       {"type", kernels::TraitsOf(tensor.type).name},
                       {"bytes", tensor.bytes},
                       {"part", tensor.part},
                       {"offset", tensor.file_offset}});
  }
  return tensors;
}

std::string Shortened(std::string_view text, ReportOptions options) {
  return engine::Escaped(text, options.full ? SIZE_MAX : kTextBytesShown);
}

// 134515008 -> "134.5 M"
std::string Count(uint64_t number) {
  constexpr std::array<std::string_view, 5> kUnits = {"", " k", " M", " B", " T"};
  auto value = static_cast<double>(number);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{}", number) : fmt::format("{:.1f}{}", value, kUnits[unit]);
}

std::string ScalarText(const Json& value, ReportOptions options) {
  if (!value.is_string()) return engine::JsonText(value);
  return fmt::format("\"{}\"", Shortened(value.get_ref<const std::string&>(), options));
}

std::string ValueText(const GgufValue& value, ReportOptions options) {
  const Json json = ValueJson(value, options.full ? SIZE_MAX : kElementsShown);
  if (!json.is_array()) return ScalarText(json, options);
  std::string text;
  for (const Json& element : json) {
    text += (text.empty() ? "" : ", ") + ScalarText(element, options);
  }
  return json.size() < value.count ? text + ", …" : text;
}

std::string TypeText(const GgufValue& value) {
  if (value.type != GgufType::kArray) return std::string(engine::GgufTypeName(value.type));
  return fmt::format("{}[{}]", engine::GgufTypeName(value.element), value.count);
}

std::string ShapeLine(const Metadata& metadata, std::string_view architecture) {
  std::string line;
  for (const ShapeRow& row : kShapeRows) {
    const GgufValue* value = metadata.Find(fmt::format("{}.{}", architecture, row.key));
    if (value == nullptr) continue;
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", row.label, ValueText(*value, {}));
  }
  return line;
}

std::string SummaryText(const GgufModel& model, const absl::Status& supported) {
  const Metadata& metadata = model.metadata();
  const Totals totals = TotalsOf(model);
  const auto architecture = StringAt(metadata, "general.architecture");
  std::string text = FileLine(model) + "\n";
  text += fmt::format("Format: GGUF version {}, alignment {}\n", model.header(0).version,
                      model.header(0).alignment);
  if (const auto name = StringAt(metadata, "general.name")) {
    text += fmt::format("Name: {}\n", engine::Named(*name));
  }
  if (architecture) {
    text += fmt::format("Architecture: {}\n", engine::Named(*architecture));
    const std::string shape = ShapeLine(metadata, *architecture);
    if (!shape.empty()) text += fmt::format("Shape: {}\n", shape);
  }
  text += fmt::format("Parameters: {} ({})", totals.elements, Count(totals.elements));
  if (totals.elements > 0)
    text += fmt::format(", {:.2f} bits per weight", *totals.bits_per_weight());
  text += fmt::format("\nSupported: {}\n",
                      supported.ok() ? "yes" : fmt::format("no, {}", Message(supported)));
  return text;
}

std::string MetadataText(const Metadata& metadata, ReportOptions options) {
  size_t width = 0;
  for (const Metadata::Entry& entry : metadata.entries()) width = std::max(width, entry.key.size());
  width = std::min<size_t>(width, 48);
  std::string text = fmt::format("\nMetadata ({})\n", metadata.entries().size());
  for (const Metadata::Entry& entry : metadata.entries()) {
    text += fmt::format("  {:<{}}  {:<14}  {}\n", Shortened(entry.key, options), width,
                        TypeText(entry.value), ValueText(entry.value, options));
  }
  return text;
}

std::string TensorsText(const GgufModel& model) {
  size_t width = 4;
  for (const TensorInfo& tensor : model.tensors()) width = std::max(width, tensor.name.size());
  std::string text = fmt::format("\nTensors ({})\n", model.tensors().size());
  text += fmt::format("  {:<{}}  {:<20} {:<8} {:>12} {:>5} {:>14}\n", "name", width, "shape",
                      "type", "bytes", "part", "offset");
  for (const TensorInfo& tensor : model.tensors()) {
    text += fmt::format("  {:<{}}  {:<20} {:<8} {:>12} {:>5} {:>14}\n", engine::Named(tensor.name),
                        width, engine::ShapeString(ShapeOf(tensor)),
                        kernels::TraitsOf(tensor.type).name, tensor.bytes, tensor.part + 1,
                        tensor.file_offset);
  }
  return text;
}

std::string TypesText(const GgufModel& model) {
  std::map<std::string_view, Totals> by_type;
  for (const TensorInfo& tensor : model.tensors()) {
    by_type[kernels::TraitsOf(tensor.type).name].Add(tensor);
  }
  std::string text = fmt::format("\nTypes ({})\n", by_type.size());
  for (const auto& [name, totals] : by_type) {
    text += fmt::format("  {:<8} {:>6} tensors  {:>10} values  {:>14} bytes\n", name,
                        totals.tensors, Count(totals.elements), totals.bytes);
  }
  return text;
}

}  // namespace

std::string FileLine(const GgufModel& model) {
  const uint64_t bytes = model.total_bytes();
  const size_t parts = model.parts().size();
  return fmt::format("File: {} bytes ({:.1f} MB) in {} {}", bytes, static_cast<double>(bytes) / 1e6,
                     parts, parts == 1 ? "part" : "parts");
}

Json ModelJson(const GgufModel& model, const absl::Status& supported, ReportOptions options) {
  const Totals totals = TotalsOf(model);
  return {
      {"file", model.parts()[0].path},
      {"parts", PartsJson(model)},
      {"gguf_version", model.header(0).version},
      {"alignment", model.header(0).alignment},
      {"architecture", OrNull(StringAt(model.metadata(), "general.architecture"))},
      {"name", OrNull(StringAt(model.metadata(), "general.name"))},
      {"parameters", totals.elements},
      {"bits_per_weight", OrNull(totals.bits_per_weight())},
      {"supported", supported.ok()},
      {"reason", supported.ok() ? Json(nullptr) : Json(Message(supported))},
      {"metadata", MetadataJson(model.metadata(), options)},
      {"tensors", TensorsJson(model)},
  };
}

std::string ModelText(const GgufModel& model, const absl::Status& supported,
                      ReportOptions options) {
  return SummaryText(model, supported) + MetadataText(model.metadata(), options) +
         TensorsText(model) + TypesText(model);
}

}  // namespace baton::cli
