// Metadata made in a test, without a file.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/metadata.h"

namespace baton::testing {

// Owns the bytes that the Metadata refers to; must outlive it.
class MetadataBuilder {
 public:
  MetadataBuilder& String(std::string_view key, std::string_view value) {
    return Add(key, {.type = engine::GgufType::kString, .bytes = Keep(std::string(value))});
  }
  MetadataBuilder& Uint32(std::string_view key, uint32_t value) {
    return Add(key, {.type = engine::GgufType::kUint32, .bytes = Keep(BytesOf(value))});
  }
  MetadataBuilder& Bool(std::string_view key, bool value) {
    return Add(
        key, {.type = engine::GgufType::kBool, .bytes = Keep(std::string(1, value ? '\1' : '\0'))});
  }
  MetadataBuilder& Strings(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes;
    for (const std::string& value : values)
      bytes += BytesOf(static_cast<uint64_t>(value.size())) + value;
    return Array(key, engine::GgufType::kString, values.size(), bytes);
  }
  MetadataBuilder& Int32s(std::string_view key, const std::vector<int32_t>& values) {
    std::string bytes;
    for (const int32_t value : values) bytes += BytesOf(value);
    return Array(key, engine::GgufType::kInt32, values.size(), bytes);
  }
  MetadataBuilder& Floats(std::string_view key, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += BytesOf(value);
    return Array(key, engine::GgufType::kFloat32, values.size(), bytes);
  }

  // The entries so far, less those named here.
  engine::Metadata Build(const std::vector<std::string_view>& without = {}) const {
    engine::Metadata metadata;
    for (const auto& [key, value] : entries_) {
      bool wanted = true;
      for (std::string_view name : without) wanted = wanted && key != name;
      if (wanted) metadata.Add(key, value);
    }
    return metadata;
  }

 private:
  template <class T>
  static std::string BytesOf(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  std::string_view Keep(std::string bytes) { return storage_.emplace_back(std::move(bytes)); }
  MetadataBuilder& Array(std::string_view key, engine::GgufType element, size_t count,
                         const std::string& bytes) {
    return Add(key, {.type = engine::GgufType::kArray,
                     .element = element,
                     .count = count,
                     .bytes = Keep(bytes)});
  }
  // A key that is set again gets the new value.
  MetadataBuilder& Add(std::string_view key, const engine::GgufValue& value) {
    for (auto& [known, old] : entries_) {
      if (known == key) {
        old = value;
        return *this;
      }
    }
    entries_.emplace_back(Keep(std::string(key)), value);
    return *this;
  }

  std::deque<std::string> storage_;
  std::vector<std::pair<std::string_view, engine::GgufValue>> entries_;
};

}  // namespace baton::testing
