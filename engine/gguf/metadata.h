// The key-value pairs of a GGUF header, as views into the header's bytes.
//
// Owner: whoever owns the bytes (GgufModel); a Metadata must not outlive them. Immutable after
// parsing, so any thread may read it. Getters accept any width that holds the value (u8 … u64, i8 …
// i64, f32/f64) and name the key in errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/status.h"

namespace baton::engine {

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
struct GgufTypeTraits {
  std::string_view name;  // "u32", "string", "array", …
  size_t bytes;           // of a value; 0: varies
};
const GgufTypeTraits& TraitsOf(GgufType type);
std::string_view GgufTypeName(GgufType type);
bool IsDefinedGgufType(uint32_t id);

// One value, undecoded. For an array, `element` is its elements' type, `count` their number and
// `bytes` all of them as they lie in the file (a string: u64 length, then its bytes).
struct GgufValue {
  GgufType type = GgufType::kUint8;
  GgufType element = GgufType::kUint8;
  uint64_t count = 1;
  std::string_view bytes;  // a scalar string: the text itself
};

// The bytes of an array's first `limit` elements, each as for a scalar.
std::vector<std::string_view> Elements(const GgufValue& array, size_t limit = SIZE_MAX);

class Metadata {
 public:
  struct Entry {
    std::string_view key;
    GgufValue value;
  };

  // In file order. Duplicates were refused by the reader; this only appends.
  void Add(std::string_view key, const GgufValue& value);

  const std::vector<Entry>& entries() const { return entries_; }
  const GgufValue* Find(std::string_view key) const;  // nullptr: absent
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // The value of a key that must be there: NotFound names an absent key, InvalidArgument a wrong
  // type or a value that does not fit, with what was got.
  absl::StatusOr<uint64_t> GetUint(std::string_view key) const;
  absl::StatusOr<int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;  // f32 or f64
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(
      std::string_view key) const;  // also an array of bool
  absl::StatusOr<std::vector<float>> GetFloats(std::string_view key) const;

  // The same for a key that may be absent: nullopt then; a wrong type stays an error.
  absl::StatusOr<std::optional<uint64_t>> FindUint(std::string_view key) const;
  absl::StatusOr<std::optional<double>> FindFloat(std::string_view key) const;
  absl::StatusOr<std::optional<bool>> FindBool(std::string_view key) const;
  absl::StatusOr<std::optional<std::string_view>> FindString(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<std::string_view>>> FindStrings(
      std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<int64_t>>> FindInts(std::string_view key) const;
  absl::StatusOr<std::optional<std::vector<float>>> FindFloats(std::string_view key) const;

 private:
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, size_t> index_;  // key -> place in entries_
};

}  // namespace baton::engine
