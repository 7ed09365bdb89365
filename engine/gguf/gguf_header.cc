#include "engine/gguf/gguf_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_set>

#include "engine/base/quote.h"

namespace baton::engine {
namespace {

constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 64;
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = 1 << 20;

// The least that an entry takes, to judge a claimed count: key length, a byte of key, type, a byte
// of value; name length, a byte of name, number of dimensions, type, offset.
constexpr uint64_t kMinKvBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 4 + 8;

// Walks the header's bytes; no read goes past their end.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  std::string_view Since(uint64_t begin) const { return bytes_.substr(begin, position_ - begin); }

  template <typename T>
  bool Read(T* value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  bool Skip(uint64_t bytes) {
    if (remaining() < bytes) return false;
    position_ += bytes;
    return true;
  }
  bool ReadBytes(uint64_t bytes, std::string_view* view) {
    const uint64_t begin = position_;
    if (!Skip(bytes)) return false;
    *view = Since(begin);
    return true;
  }

 private:
  std::string_view bytes_;
  uint64_t position_ = 0;
};

// `a * b` into *product; false where it does not fit.
bool Multiply(uint64_t a, uint64_t b, uint64_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

class HeaderParser {
 public:
  HeaderParser(std::string_view bytes, uint64_t file_bytes, std::string_view file)
      : cursor_(bytes.substr(0, std::min<uint64_t>(bytes.size(), file_bytes))),
        bytes_(bytes),
        file_(Named(file)) {
    header_.file_bytes = file_bytes;
  }

  absl::StatusOr<GgufHeader> Parse() {
    RETURN_IF_ERROR(ReadPreamble());
    RETURN_IF_ERROR(ReadMetadata());
    RETURN_IF_ERROR(ReadAlignment());
    RETURN_IF_ERROR(ReadTensorInfos());
    RETURN_IF_ERROR(PlaceData());
    return std::move(header_);
  }

 private:
  absl::Status ReadPreamble();
  absl::Status CheckMagic();
  absl::Status CheckVersion();
  absl::Status ReadMetadata();
  absl::Status ReadKey(uint64_t index, std::string_view* key);
  absl::Status ReadType(std::string_view key, GgufType* type);
  absl::Status ReadValue(std::string_view key, GgufValue* value);
  absl::Status ReadArray(std::string_view key, GgufValue* value);
  absl::Status SkipStrings(std::string_view key, uint64_t count);
  absl::Status CheckBools(std::string_view key, std::string_view bytes);
  absl::Status ReadAlignment();
  absl::Status ReadTensorInfos();
  absl::Status ReadTensorName(uint64_t index, std::string_view* name);
  absl::Status ReadTensorInfo(TensorInfo* tensor);
  absl::Status ReadShape(TensorInfo* tensor);
  absl::Status SetBytes(TensorInfo* tensor);
  absl::Status PlaceData();
  absl::Status PlaceTensor(TensorInfo* tensor);
  absl::Status CheckOverlaps();

  // "FILE: PLACE: " and what is wrong.
  template <typename... Args>
  absl::Status Broken(std::string_view place, fmt::format_string<Args...> f, Args&&... args) {
    return DataLoss("{}: {}: {}", file_, Named(place), fmt::format(f, std::forward<Args>(args)...));
  }
  absl::Status Truncated(std::string_view place, std::string_view what) {
    return Broken(place, "truncated: {} goes past the end of the file at byte {}", what,
                  header_.file_bytes);
  }
  absl::Status TooLong(std::string_view place, std::string_view what, uint64_t claimed) {
    return Broken(place, "{} {} goes past the end of the file: {} bytes remain", what, claimed,
                  cursor_.remaining());
  }

  Cursor cursor_;
  std::string_view bytes_;
  std::string file_;
  GgufHeader header_;
  uint64_t num_tensors_ = 0;
  uint64_t num_kvs_ = 0;
};

absl::Status HeaderParser::ReadPreamble() {
  RETURN_IF_ERROR(CheckMagic());
  if (!cursor_.Read(&header_.version)) return Truncated("header", "the version");
  RETURN_IF_ERROR(CheckVersion());
  if (!cursor_.Read(&num_tensors_)) return Truncated("header", "the tensor count");
  if (!cursor_.Read(&num_kvs_)) return Truncated("header", "the key-value count");
  const uint64_t rest = cursor_.remaining();
  if (num_kvs_ > rest / kMinKvBytes) {
    return TooLong("header", "the key-value count", num_kvs_);
  }
  if (num_tensors_ > rest / kMinTensorInfoBytes) {
    return TooLong("header", "the tensor count", num_tensors_);
  }
  return absl::OkStatus();
}

absl::Status HeaderParser::CheckMagic() {
  std::string_view magic;
  if (!cursor_.ReadBytes(kGgufMagic.size(), &magic)) return Truncated("header", "the magic");
  if (magic == kGgufMagic) return absl::OkStatus();
  std::string_view hint = "";
  if (bytes_.starts_with("version https://git-lfs")) {
    hint = "; this is a Git LFS pointer, fetch the file itself with git lfs pull";
  } else if (bytes_.starts_with('<')) {
    hint = "; this looks like a web page, was the download refused?";
  } else if (bytes_.starts_with("PK")) {
    hint = "; this is a ZIP archive";
  }
  return Broken("header", "not a GGUF file: magic \"{}\", expected \"{}\"{}", Escaped(magic),
                kGgufMagic, hint);
}

absl::Status HeaderParser::CheckVersion() {
  const uint32_t version = header_.version;
  if (version == 2 || version == 3) return absl::OkStatus();
  if (version != 0 && (version & 0xFFFF) == 0) {
    return Broken("header",
                  "big-endian file (version reads {:#x}), expected little-endian byte order",
                  version);
  }
  return Broken("header", "GGUF version {}, expected 2 or 3", version);
}

absl::Status HeaderParser::ReadMetadata() {
  for (uint64_t i = 0; i < num_kvs_; ++i) {
    std::string_view key;
    RETURN_IF_ERROR(ReadKey(i, &key));
    if (header_.metadata.Has(key)) return Broken(key, "duplicate key");
    GgufValue value;
    RETURN_IF_ERROR(ReadValue(key, &value));
    header_.metadata.Add(key, value);
  }
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadKey(uint64_t index, std::string_view* key) {
  const std::string place = fmt::format("key {} of {}", index + 1, num_kvs_);
  uint64_t length = 0;
  if (!cursor_.Read(&length)) return Truncated(place, "the key's length");
  if (length == 0) return Broken(place, "empty key");
  if (length > cursor_.remaining()) return TooLong(place, "the key's length", length);
  if (length > kMaxKeyBytes) {
    return Broken(place, "the key's length is {}, limit {}", length, kMaxKeyBytes);
  }
  cursor_.ReadBytes(length, key);
  const bool printable =
      std::all_of(key->begin(), key->end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (!printable) return Broken(*key, "invalid key: expected printable ASCII");
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadType(std::string_view key, GgufType* type) {
  uint32_t id = 0;
  if (!cursor_.Read(&id)) return Truncated(key, "the value's type");
  if (!IsDefinedGgufType(id)) return Broken(key, "unknown value type {}, expected 0 to 12", id);
  *type = static_cast<GgufType>(id);
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadValue(std::string_view key, GgufValue* value) {
  RETURN_IF_ERROR(ReadType(key, &value->type));
  if (value->type == GgufType::kArray) return ReadArray(key, value);
  value->element = value->type;
  uint64_t length = TraitsOf(value->type).bytes;
  if (value->type == GgufType::kString) {
    if (!cursor_.Read(&length)) return Truncated(key, "the string's length");
    if (length > cursor_.remaining()) return TooLong(key, "the string's length", length);
  }
  if (!cursor_.ReadBytes(length, &value->bytes)) return Truncated(key, "the value");
  if (value->type == GgufType::kBool) return CheckBools(key, value->bytes);
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadArray(std::string_view key, GgufValue* value) {
  RETURN_IF_ERROR(ReadType(key, &value->element));
  if (value->element == GgufType::kArray) return Broken(key, "nested array, not supported");
  if (!cursor_.Read(&value->count)) return Truncated(key, "the array's length");
  const bool strings = value->element == GgufType::kString;
  const uint64_t min_element = strings ? sizeof(uint64_t) : TraitsOf(value->element).bytes;
  if (value->count > cursor_.remaining() / min_element) {
    return TooLong(key, "the array's length", value->count);
  }
  const uint64_t begin = cursor_.position();
  if (strings) {
    RETURN_IF_ERROR(SkipStrings(key, value->count));
  } else {
    cursor_.Skip(value->count * min_element);
  }
  value->bytes = cursor_.Since(begin);
  if (value->element == GgufType::kBool) return CheckBools(key, value->bytes);
  return absl::OkStatus();
}

absl::Status HeaderParser::SkipStrings(std::string_view key, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (!cursor_.Read(&length)) return Truncated(key, fmt::format("element {} of {}", i, count));
    if (!cursor_.Skip(length)) {
      return TooLong(key, fmt::format("the length of element {} of {}", i, count), length);
    }
  }
  return absl::OkStatus();
}

absl::Status HeaderParser::CheckBools(std::string_view key, std::string_view bytes) {
  for (const char byte : bytes) {
    const auto value = static_cast<uint8_t>(byte);
    if (value > 1) return Broken(key, "bool of value {}, expected 0 or 1", value);
  }
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadAlignment() {
  const GgufValue* value = header_.metadata.Find(kAlignmentKey);
  if (value == nullptr) return absl::OkStatus();
  if (value->type != GgufType::kUint32) {
    return Broken(kAlignmentKey, "type {}, expected u32", GgufTypeName(value->type));
  }
  uint32_t alignment = 0;
  std::memcpy(&alignment, value->bytes.data(), sizeof(alignment));
  const bool power_of_two = (alignment & (alignment - 1)) == 0;
  if (!power_of_two || alignment < kMinAlignment || alignment > kMaxAlignment) {
    return Broken(kAlignmentKey, "{} is out of range, expected a power of two from {} to {}",
                  alignment, kMinAlignment, kMaxAlignment);
  }
  header_.alignment = alignment;
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadTensorInfos() {
  std::unordered_set<std::string_view> names;
  header_.tensors.reserve(num_tensors_);  // bounded by the file's size
  for (uint64_t i = 0; i < num_tensors_; ++i) {
    TensorInfo tensor;
    RETURN_IF_ERROR(ReadTensorName(i, &tensor.name));
    if (!names.insert(tensor.name).second) return Broken(tensor.name, "duplicate tensor name");
    RETURN_IF_ERROR(ReadTensorInfo(&tensor));
    header_.tensors.push_back(tensor);
  }
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadTensorName(uint64_t index, std::string_view* name) {
  const std::string place = fmt::format("tensor {} of {}", index + 1, num_tensors_);
  uint64_t length = 0;
  if (!cursor_.Read(&length)) return Truncated(place, "the name's length");
  if (length == 0) return Broken(place, "empty name");
  if (length > cursor_.remaining()) return TooLong(place, "the name's length", length);
  if (length > kMaxTensorNameBytes) {
    return Broken(place, "the name's length is {}, limit {}", length, kMaxTensorNameBytes);
  }
  cursor_.ReadBytes(length, name);
  return absl::OkStatus();
}

absl::Status HeaderParser::ReadTensorInfo(TensorInfo* tensor) {
  RETURN_IF_ERROR(ReadShape(tensor));
  uint32_t type = 0;
  if (!cursor_.Read(&type)) return Truncated(tensor->name, "the tensor's type");
  if (!kernels::IsDefinedQuantType(type)) {
    return Broken(tensor->name, "unknown tensor type {}", type);
  }
  tensor->type = static_cast<kernels::QuantType>(type);
  // The offset in the data section; PlaceTensor makes it the one in the file.
  if (!cursor_.Read(&tensor->file_offset)) return Truncated(tensor->name, "the tensor's offset");
  return SetBytes(tensor);
}

absl::Status HeaderParser::ReadShape(TensorInfo* tensor) {
  uint32_t num_dims = 0;
  if (!cursor_.Read(&num_dims)) return Truncated(tensor->name, "the number of dimensions");
  if (num_dims > kMaxTensorDims) {
    return Broken(tensor->name, "{} dimensions, expected at most {}", num_dims, kMaxTensorDims);
  }
  tensor->num_dims = static_cast<int>(num_dims);
  uint64_t elements = 1;
  for (int i = 0; i < tensor->num_dims; ++i) {
    if (!cursor_.Read(&tensor->ne[i])) return Truncated(tensor->name, "the tensor's dimensions");
    if (tensor->ne[i] < 0) {
      return Broken(tensor->name, "dimension {} is {}: negative or too large", i, tensor->ne[i]);
    }
    const auto ne = static_cast<uint64_t>(tensor->ne[i]);
    if (!Multiply(elements, ne, &elements) || elements > std::numeric_limits<int64_t>::max()) {
      return Broken(tensor->name, "shape {}: too large, the number of elements overflows",
                    ShapeString(std::span(tensor->ne.data(), tensor->num_dims)));
    }
  }
  return absl::OkStatus();
}

absl::Status HeaderParser::SetBytes(TensorInfo* tensor) {
  const kernels::QuantTraits& traits = kernels::TraitsOf(tensor->type);
  const auto block_size = static_cast<uint64_t>(traits.block_size);
  if (tensor->ne[0] % traits.block_size != 0) {
    return Broken(tensor->name, "row of {} values, expected a multiple of {}, the block size of {}",
                  tensor->ne[0], block_size, traits.name);
  }
  const uint64_t blocks = static_cast<uint64_t>(tensor->num_elements()) / block_size;
  if (!Multiply(blocks, static_cast<uint64_t>(traits.block_bytes), &tensor->bytes)) {
    return Broken(tensor->name, "too large: its size in bytes overflows");
  }
  return absl::OkStatus();
}

absl::Status HeaderParser::PlaceData() {
  header_.data_offset = AlignUp(cursor_.position(), header_.alignment);
  if (header_.tensors.empty()) return absl::OkStatus();
  if (header_.data_offset > header_.file_bytes) {
    return Truncated("header",
                     fmt::format("the data section, which starts at {},", header_.data_offset));
  }
  for (TensorInfo& tensor : header_.tensors) RETURN_IF_ERROR(PlaceTensor(&tensor));
  return CheckOverlaps();
}

absl::Status HeaderParser::PlaceTensor(TensorInfo* tensor) {
  const uint64_t offset = tensor->file_offset;
  if (offset % header_.alignment != 0) {
    return Broken(tensor->name, "offset {} is not aligned, expected a multiple of {}", offset,
                  header_.alignment);
  }
  const uint64_t data_bytes = header_.file_bytes - header_.data_offset;
  if (offset > data_bytes || tensor->bytes > data_bytes - offset) {
    return Broken(tensor->name,
                  "{} bytes at offset {} go past the end of the file: too large, or the file is "
                  "truncated; the data section holds {} bytes",
                  tensor->bytes, offset, data_bytes);
  }
  tensor->file_offset = header_.data_offset + offset;
  return absl::OkStatus();
}

absl::Status HeaderParser::CheckOverlaps() {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(header_.tensors.size());
  for (const TensorInfo& tensor : header_.tensors) {
    if (tensor.bytes > 0) by_offset.push_back(&tensor);
  }
  // Stable: of two at one place, the later in the directory is the one to blame.
  std::ranges::stable_sort(by_offset, {}, &TensorInfo::file_offset);
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorInfo& before = *by_offset[i - 1];
    if (before.file_offset + before.bytes > by_offset[i]->file_offset) {
      return Broken(by_offset[i]->name, "offset {} overlaps tensor {}",
                    by_offset[i]->file_offset - header_.data_offset, Named(before.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ShapeString(std::span<const int64_t> ne) {
  return fmt::format("[{}]", fmt::join(ne, ", "));
}

absl::StatusOr<GgufHeader> ParseGgufHeader(std::string_view bytes, uint64_t file_bytes,
                                           std::string_view name) {
  return HeaderParser(bytes, file_bytes, name).Parse();
}

}  // namespace baton::engine
