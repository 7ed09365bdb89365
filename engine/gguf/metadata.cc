#include "engine/gguf/metadata.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/base/quote.h"

namespace baton::engine {
namespace {

constexpr GgufTypeTraits kTypeTraits[] = {
    /* 0*/ {"u8", 1},    /* 1*/ {"i8", 1},  /* 2*/ {"u16", 2},  /* 3*/ {"i16", 2},
    /* 4*/ {"u32", 4},
    /* 5*/ {"i32", 4},   /* 6*/ {"f32", 4}, /* 7*/ {"bool", 1}, /* 8*/ {"string", 0},
    /* 9*/ {"array", 0}, /*10*/ {"u64", 8}, /*11*/ {"i64", 8},  /*12*/ {"f64", 8},
};

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// An integer of any width: `negative` values are in `bits` as two's complement.
struct Integer {
  uint64_t bits;
  bool negative;
};

template <typename T>
Integer MakeInteger(const char* bytes) {
  const T value = Load<T>(bytes);
  if constexpr (std::is_signed_v<T>) {
    return {static_cast<uint64_t>(static_cast<int64_t>(value)), value < 0};
  } else {
    return {value, false};
  }
}

std::optional<Integer> LoadInteger(GgufType type, const char* bytes) {
  switch (type) {
    case GgufType::kUint8:
      return MakeInteger<uint8_t>(bytes);
    case GgufType::kInt8:
      return MakeInteger<int8_t>(bytes);
    case GgufType::kUint16:
      return MakeInteger<uint16_t>(bytes);
    case GgufType::kInt16:
      return MakeInteger<int16_t>(bytes);
    case GgufType::kUint32:
      return MakeInteger<uint32_t>(bytes);
    case GgufType::kInt32:
      return MakeInteger<int32_t>(bytes);
    case GgufType::kUint64:
      return MakeInteger<uint64_t>(bytes);
    case GgufType::kInt64:
      return MakeInteger<int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

std::string TypeString(const GgufValue& value) {
  if (value.type != GgufType::kArray) return std::string(GgufTypeName(value.type));
  return fmt::format("array of {}", GgufTypeName(value.element));
}

absl::Status WrongType(std::string_view key, const GgufValue& value, std::string_view expected) {
  return InvalidArgument("{}: type {}, expected {}", Named(key), TypeString(value), expected);
}

// The conversions. Each takes the key only to name it.

absl::StatusOr<uint64_t> ToUint(std::string_view key, const GgufValue& value) {
  const auto integer = LoadInteger(value.type, value.bytes.data());
  if (!integer) return WrongType(key, value, "an unsigned integer");
  if (integer->negative) {
    return InvalidArgument("{}: {}, expected no negative value", Named(key),
                           static_cast<int64_t>(integer->bits));
  }
  return integer->bits;
}

absl::StatusOr<int64_t> ToInt(std::string_view key, const GgufValue& value) {
  const auto integer = LoadInteger(value.type, value.bytes.data());
  if (!integer) return WrongType(key, value, "an integer");
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (!integer->negative && integer->bits > kMax) {
    return InvalidArgument("{}: {}, expected at most {}", Named(key), integer->bits, kMax);
  }
  return static_cast<int64_t>(integer->bits);
}

absl::StatusOr<double> ToFloat(std::string_view key, const GgufValue& value) {
  if (value.type == GgufType::kFloat32) return Load<float>(value.bytes.data());
  if (value.type == GgufType::kFloat64) return Load<double>(value.bytes.data());
  return WrongType(key, value, "f32 or f64");
}

absl::StatusOr<bool> ToBool(std::string_view key, const GgufValue& value) {
  if (value.type != GgufType::kBool) return WrongType(key, value, "bool");
  return value.bytes[0] != 0;
}

absl::StatusOr<std::string_view> ToString(std::string_view key, const GgufValue& value) {
  if (value.type != GgufType::kString) return WrongType(key, value, "string");
  return value.bytes;
}

absl::StatusOr<std::vector<std::string_view>> ToStrings(std::string_view key,
                                                        const GgufValue& value) {
  if (value.type != GgufType::kArray || value.element != GgufType::kString) {
    return WrongType(key, value, "array of string");
  }
  return Elements(value);
}

absl::StatusOr<std::vector<int64_t>> ToInts(std::string_view key, const GgufValue& value) {
  // A bool is stored as a byte of 0 or 1.
  const GgufType element = value.element == GgufType::kBool ? GgufType::kUint8 : value.element;
  const size_t width = TraitsOf(element).bytes;
  const bool is_integer =
      width > 0 && element != GgufType::kFloat32 && element != GgufType::kFloat64;
  if (value.type != GgufType::kArray || !is_integer) {
    return WrongType(key, value, "array of integers");
  }
  std::vector<int64_t> ints;
  ints.reserve(value.count);
  for (size_t at = 0; at < value.bytes.size(); at += width) {
    const GgufValue scalar = {.type = element, .bytes = value.bytes.substr(at, width)};
    ASSIGN_OR_RETURN(const int64_t number, ToInt(key, scalar));
    ints.push_back(number);
  }
  return ints;
}

absl::StatusOr<std::vector<float>> ToFloats(std::string_view key, const GgufValue& value) {
  const bool wide = value.element == GgufType::kFloat64;
  if (value.type != GgufType::kArray || (value.element != GgufType::kFloat32 && !wide)) {
    return WrongType(key, value, "array of f32 or f64");
  }
  std::vector<float> floats(value.count);
  if (!wide && !floats.empty()) {
    std::memcpy(floats.data(), value.bytes.data(), value.bytes.size());
  }
  for (size_t i = 0; wide && i < floats.size(); ++i) {
    floats[i] = static_cast<float>(Load<double>(value.bytes.data() + i * sizeof(double)));
  }
  return floats;
}

template <typename T>
using Convert = absl::StatusOr<T> (*)(std::string_view key, const GgufValue& value);

template <typename T>
absl::StatusOr<T> Get(const Metadata& metadata, std::string_view key, Convert<T> convert) {
  const GgufValue* value = metadata.Find(key);
  if (value == nullptr) return NotFound("{}: key is missing", Named(key));
  return convert(key, *value);
}

template <typename T>
absl::StatusOr<std::optional<T>> FindAs(const Metadata& metadata, std::string_view key,
                                        Convert<T> convert) {
  const GgufValue* value = metadata.Find(key);
  if (value == nullptr) return std::optional<T>();
  ASSIGN_OR_RETURN(T converted, convert(key, *value));
  return std::optional<T>(std::move(converted));
}

}  // namespace

bool IsDefinedGgufType(uint32_t id) { return id < std::size(kTypeTraits); }

const GgufTypeTraits& TraitsOf(GgufType type) { return kTypeTraits[static_cast<uint32_t>(type)]; }

std::string_view GgufTypeName(GgufType type) { return TraitsOf(type).name; }

std::vector<std::string_view> Elements(const GgufValue& array, size_t limit) {
  std::vector<std::string_view> elements(std::min<uint64_t>(array.count, limit));
  size_t at = 0;
  for (std::string_view& element : elements) {
    uint64_t bytes = TraitsOf(array.element).bytes;
    if (array.element == GgufType::kString) {
      bytes = Load<uint64_t>(array.bytes.data() + at);
      at += sizeof(bytes);
    }
    // The reader has checked every length, so this stays inside.
    element = array.bytes.substr(at, bytes);
    at += bytes;
  }
  return elements;
}

void Metadata::Add(std::string_view key, const GgufValue& value) {
  index_.emplace(key, entries_.size());
  entries_.push_back({key, value});
}

const GgufValue* Metadata::Find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].value;
}

absl::StatusOr<uint64_t> Metadata::GetUint(std::string_view key) const {
  return Get(*this, key, ToUint);
}
absl::StatusOr<int64_t> Metadata::GetInt(std::string_view key) const {
  return Get(*this, key, ToInt);
}
absl::StatusOr<double> Metadata::GetFloat(std::string_view key) const {
  return Get(*this, key, ToFloat);
}
absl::StatusOr<bool> Metadata::GetBool(std::string_view key) const {
  return Get(*this, key, ToBool);
}
absl::StatusOr<std::string_view> Metadata::GetString(std::string_view key) const {
  return Get(*this, key, ToString);
}
absl::StatusOr<std::vector<std::string_view>> Metadata::GetStrings(std::string_view key) const {
  return Get(*this, key, ToStrings);
}
absl::StatusOr<std::vector<int64_t>> Metadata::GetInts(std::string_view key) const {
  return Get(*this, key, ToInts);
}
absl::StatusOr<std::vector<float>> Metadata::GetFloats(std::string_view key) const {
  return Get(*this, key, ToFloats);
}

absl::StatusOr<std::optional<uint64_t>> Metadata::FindUint(std::string_view key) const {
  return FindAs(*this, key, ToUint);
}
absl::StatusOr<std::optional<double>> Metadata::FindFloat(std::string_view key) const {
  return FindAs(*this, key, ToFloat);
}
absl::StatusOr<std::optional<bool>> Metadata::FindBool(std::string_view key) const {
  return FindAs(*this, key, ToBool);
}
absl::StatusOr<std::optional<std::string_view>> Metadata::FindString(std::string_view key) const {
  return FindAs(*this, key, ToString);
}
absl::StatusOr<std::optional<std::vector<std::string_view>>> Metadata::FindStrings(
    std::string_view key) const {
  return FindAs(*this, key, ToStrings);
}
absl::StatusOr<std::optional<std::vector<int64_t>>> Metadata::FindInts(std::string_view key) const {
  return FindAs(*this, key, ToInts);
}
absl::StatusOr<std::optional<std::vector<float>>> Metadata::FindFloats(std::string_view key) const {
  return FindAs(*this, key, ToFloats);
}

}  // namespace baton::engine
