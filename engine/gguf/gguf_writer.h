// Writes GGUF v3 files: for the splitter, the quantizer and tests. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/gguf/gguf_header.h"
#include "engine/gguf/metadata.h"

namespace baton::engine {

class GgufWriter {
 public:
  void SetUint32(std::string_view key, uint32_t value);
  void SetUint16(std::string_view key, uint16_t value);
  void SetInt32(std::string_view key, int32_t value);
  void SetUint64(std::string_view key, uint64_t value);
  void SetFloat32(std::string_view key, float value);
  void SetBool(std::string_view key, bool value);
  void SetString(std::string_view key, std::string_view value);
  void SetStrings(std::string_view key, std::span<const std::string> values);
  void SetFloats(std::string_view key, std::span<const float> values);
  void SetInts(std::string_view key, std::span<const int32_t> values);
  void SetUints(std::string_view key, std::span<const uint32_t> values);
  void SetBools(std::string_view key, const std::vector<bool>& values);
  void SetValue(std::string_view key, const GgufValue& value);  // as read from another file
  void Remove(std::string_view key);

  // Declares a tensor; its data follows in WriteTo, in order of declaration. `ne` has at most
  // kMaxTensorDims dimensions, and its rows are whole blocks of the type.
  void AddTensor(std::string_view name, std::span<const int64_t> ne, kernels::QuantType type);

  // The header alone (magic to the end of the tensor infos, padded to the data section).
  std::string Header() const;
  // Offset of each declared tensor in the data section, and the section's size.
  std::vector<uint64_t> TensorOffsets() const;

  // Writes a tensor's data (index in declaration order), as many bytes as its shape needs.
  using TensorData = std::function<absl::Status(size_t index, std::ostream& out)>;

  // Header, data and padding to a file, which appears under its name only when it is whole.
  absl::Status WriteTo(const std::string& path, const TensorData& tensor_data) const;
  // The same to a stream, which the caller checks for failure.
  absl::Status WriteStream(std::ostream& out, const TensorData& tensor_data) const;

 private:
  struct Kv {
    std::string key;
    std::string encoded;  // type id and value as in the file
  };
  struct Tensor {
    std::string name;
    std::vector<int64_t> ne;
    kernels::QuantType type;
    uint64_t bytes;
  };
  void Set(std::string_view key, GgufType type, std::string_view payload);
  void SetArray(std::string_view key, GgufType element, uint64_t count, std::string_view bytes);

  std::vector<Kv> kvs_;
  std::vector<Tensor> tensors_;
  uint64_t alignment_ = kDefaultAlignment;
};

}  // namespace baton::engine
