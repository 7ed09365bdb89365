#include "cli/gguf_json.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace baton::cli {
namespace {

using engine::GgufType;
using engine::GgufValue;
using Json = nlohmann::ordered_json;

template <typename T>
T Load(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

template <typename T>
Json FloatJson(T value) {
  const std::string shortest = fmt::format("{}", value);
  if (!std::isfinite(value)) return shortest;
  // As a double, 0.1f would show as 0.10000000149011612.
  return std::strtod(shortest.c_str(), nullptr);
}

Json ScalarJson(GgufType type, std::string_view bytes) {
  switch (type) {
    case GgufType::kUint8:
      return Load<uint8_t>(bytes);
    case GgufType::kInt8:
      return Load<int8_t>(bytes);
    case GgufType::kUint16:
      return Load<uint16_t>(bytes);
    case GgufType::kInt16:
      return Load<int16_t>(bytes);
    case GgufType::kUint32:
      return Load<uint32_t>(bytes);
    case GgufType::kInt32:
      return Load<int32_t>(bytes);
    case GgufType::kUint64:
      return Load<uint64_t>(bytes);
    case GgufType::kInt64:
      return Load<int64_t>(bytes);
    case GgufType::kFloat32:
      return FloatJson(Load<float>(bytes));
    case GgufType::kFloat64:
      return FloatJson(Load<double>(bytes));
    case GgufType::kBool:
      return bytes[0] != 0;
    case GgufType::kString:
      return bytes;
    case GgufType::kArray:
      break;  // the reader refuses arrays of arrays
  }
  return nullptr;
}

}  // namespace

Json ValueJson(const GgufValue& value, size_t max_elements) {
  if (value.type != GgufType::kArray) return ScalarJson(value.type, value.bytes);
  Json elements = Json::array();
  for (const std::string_view bytes : engine::Elements(value, max_elements)) {
    elements.push_back(ScalarJson(value.element, bytes));
  }
  return elements;
}

}  // namespace baton::cli
