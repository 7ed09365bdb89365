// Reading GGUF v2 and v3: header, metadata and tensor directory of one file, and a model of one or more files.
//
// Nothing of the data section is read here. Every length is checked against the bytes that remain before anything is
// allocated. Format: the GGUF specification; where it and practice differ, tests/engine/gguf says what we do.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/mmap_file.h"
#include "engine/base/status.h"
#include "engine/gguf/metadata.h"
#include "kernels/quant_types.h"

namespace baton::engine {

inline constexpr int kMaxTensorDims = 4;

// Where a tensor lies. `ne[0]` is the fastest dimension: the row length of a weight matrix.
struct TensorInfo {
  std::string_view name;
  int num_dims = 0;
  std::array<int64_t, kMaxTensorDims> ne = {1, 1, 1, 1};
  kernels::QuantType type = kernels::QuantType::kF32;
  uint32_t part = 0;         // index of the file in the model
  uint64_t file_offset = 0;  // from the file's first byte
  uint64_t bytes = 0;

  int64_t num_elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};
// "[4096, 1024]"
std::string ShapeString(std::span<const int64_t> ne);

// What stands in front of a file's data section. Views point into the parsed bytes.
struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 32;
  uint64_t data_offset = 0;
  uint64_t file_bytes = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // file order; part is 0
};

// Parses a header. `bytes` is the file from its start, at least to the end of the header (a whole mapping, or what a
// worker sent); `file_bytes` is the size of the whole file, which the data must fit. `name` stands in errors.
absl::StatusOr<GgufHeader> ParseGgufHeader(std::string_view bytes, uint64_t file_bytes, std::string_view name);

// A model: one file, or all parts of a split set, checked whole. Owns the mappings of the parts. Immutable, any thread.
class GgufModel {
 public:
  struct Part {
    std::string path;
    std::string file_name;  // last component: how workers find it
    uint64_t bytes = 0;
  };

  // Maps `path`, which is the only file or the first part, and the other parts beside it; reads headers only.
  static absl::StatusOr<GgufModel> Open(const std::string& path);

  const Metadata& metadata() const { return headers_[0].metadata; }
  const GgufHeader& header(size_t part) const { return headers_[part]; }
  const std::vector<Part>& parts() const { return parts_; }
  const MmapFile& mapping(size_t part) const { return *mappings_[part]; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // of all parts, in order
  const TensorInfo* FindTensor(std::string_view name) const;           // nullptr: absent
  uint64_t total_bytes() const;

 private:
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<MmapFile>> mappings_;
  std::vector<GgufHeader> headers_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace baton::engine
