#include "engine/gguf/gguf_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "engine/base/pending_file.h"

namespace baton::engine {
namespace {

constexpr uint32_t kWrittenVersion = 3;

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void AppendString(std::string* out, std::string_view text) {
  Append(out, static_cast<uint64_t>(text.size()));
  out->append(text);
}

template <typename T>
std::string Bytes(const T& value) {
  std::string bytes;
  Append(&bytes, value);
  return bytes;
}

template <typename T>
std::string_view View(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

uint64_t TensorBytes(std::span<const int64_t> ne, kernels::QuantType type) {
  const int64_t row = ne.empty() ? 1 : ne[0];
  auto bytes = static_cast<uint64_t>(kernels::RowBytes(type, row));
  for (size_t i = 1; i < ne.size(); ++i) bytes *= static_cast<uint64_t>(ne[i]);
  return bytes;
}

}  // namespace

void GgufWriter::SetUint32(std::string_view key, uint32_t value) {
  Set(key, GgufType::kUint32, Bytes(value));
}
void GgufWriter::SetUint16(std::string_view key, uint16_t value) {
  Set(key, GgufType::kUint16, Bytes(value));
}
void GgufWriter::SetInt32(std::string_view key, int32_t value) {
  Set(key, GgufType::kInt32, Bytes(value));
}
void GgufWriter::SetUint64(std::string_view key, uint64_t value) {
  Set(key, GgufType::kUint64, Bytes(value));
}
void GgufWriter::SetFloat32(std::string_view key, float value) {
  Set(key, GgufType::kFloat32, Bytes(value));
}
void GgufWriter::SetBool(std::string_view key, bool value) {
  Set(key, GgufType::kBool, Bytes<uint8_t>(value));
}
void GgufWriter::SetString(std::string_view key, std::string_view value) {
  SetValue(key, {.type = GgufType::kString, .bytes = value});
}
void GgufWriter::SetStrings(std::string_view key, std::span<const std::string> values) {
  std::string bytes;
  for (const std::string& value : values) AppendString(&bytes, value);
  SetArray(key, GgufType::kString, values.size(), bytes);
}
void GgufWriter::SetFloats(std::string_view key, std::span<const float> values) {
  SetArray(key, GgufType::kFloat32, values.size(), View(values));
}
void GgufWriter::SetInts(std::string_view key, std::span<const int32_t> values) {
  SetArray(key, GgufType::kInt32, values.size(), View(values));
}
void GgufWriter::SetUints(std::string_view key, std::span<const uint32_t> values) {
  SetArray(key, GgufType::kUint32, values.size(), View(values));
}
void GgufWriter::SetBools(std::string_view key, const std::vector<bool>& values) {
  const std::string bytes(values.begin(), values.end());
  SetArray(key, GgufType::kBool, values.size(), bytes);
}

void GgufWriter::SetArray(std::string_view key, GgufType element, uint64_t count,
                          std::string_view bytes) {
  SetValue(key, {.type = GgufType::kArray, .element = element, .count = count, .bytes = bytes});
}

void GgufWriter::SetValue(std::string_view key, const GgufValue& value) {
  std::string payload;
  if (value.type == GgufType::kArray) {
    Append(&payload, value.element);
    Append(&payload, value.count);
  } else if (value.type == GgufType::kString) {
    Append(&payload, static_cast<uint64_t>(value.bytes.size()));
  }
  payload += value.bytes;
  Set(key, value.type, payload);
}

void GgufWriter::Set(std::string_view key, GgufType type, std::string_view payload) {
  if (key == kAlignmentKey && type == GgufType::kUint32) {
    uint32_t alignment = 0;
    std::memcpy(&alignment, payload.data(), sizeof(alignment));
    alignment_ = alignment;
  }
  std::string encoded = Bytes(type);
  encoded += payload;
  const auto found = std::ranges::find(kvs_, key, &Kv::key);
  if (found != kvs_.end()) {
    found->encoded = std::move(encoded);
  } else {
    kvs_.push_back({.key = std::string(key), .encoded = std::move(encoded)});
  }
}

void GgufWriter::Remove(std::string_view key) {
  std::erase_if(kvs_, [&](const Kv& kv) { return kv.key == key; });
  if (key == kAlignmentKey) alignment_ = kDefaultAlignment;
}

void GgufWriter::AddTensor(std::string_view name, std::span<const int64_t> ne,
                           kernels::QuantType type) {
  tensors_.push_back({.name = std::string(name),
                      .ne = {ne.begin(), ne.end()},
                      .type = type,
                      .bytes = TensorBytes(ne, type)});
}

std::vector<uint64_t> GgufWriter::TensorOffsets() const {
  std::vector<uint64_t> offsets;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    offsets.push_back(offset);
    offset = AlignUp(offset + tensor.bytes, alignment_);
  }
  offsets.push_back(offset);
  return offsets;
}

std::string GgufWriter::Header() const {
  std::string out(kGgufMagic);
  Append(&out, kWrittenVersion);
  Append(&out, static_cast<uint64_t>(tensors_.size()));
  Append(&out, static_cast<uint64_t>(kvs_.size()));
  for (const Kv& kv : kvs_) {
    AppendString(&out, kv.key);
    out += kv.encoded;
  }
  const std::vector<uint64_t> offsets = TensorOffsets();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    AppendString(&out, tensor.name);
    Append(&out, static_cast<uint32_t>(tensor.ne.size()));
    out += View(std::span<const int64_t>(tensor.ne));
    Append(&out, tensor.type);
    Append(&out, offsets[i]);
  }
  out.resize(AlignUp(out.size(), alignment_));
  return out;
}

absl::Status GgufWriter::WriteTo(const std::string& path, const TensorData& tensor_data) const {
  ASSIGN_OR_RETURN(const auto file, PendingFile::Create(path));
  RETURN_IF_ERROR(Prefixed(WriteStream(file->stream(), tensor_data), path));
  return file->Commit();
}

absl::Status GgufWriter::WriteStream(std::ostream& out, const TensorData& tensor_data) const {
  const std::string header = Header();
  const std::vector<uint64_t> offsets = TensorOffsets();
  out << header;
  for (size_t i = 0; i < tensors_.size() && out; ++i) {
    RETURN_IF_ERROR(tensor_data(i, out));
    if (!out) break;
    const uint64_t written = static_cast<uint64_t>(out.tellp()) - header.size() - offsets[i];
    if (written != tensors_[i].bytes) {
      return Internal("wrote {} bytes of {}, expected {}", written, tensors_[i].name,
                      tensors_[i].bytes);
    }
    out << std::string(offsets[i + 1] - offsets[i] - written, '\0');
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
