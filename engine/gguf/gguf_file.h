// A GGUF model on disk: one file, or all parts of a split set.
//
// A set is checked whole before a weight is touched: names, split.no, split.count,
// split.tensors.count, sizes, and tensors that stand in two parts. Parts lie beside the first one,
// which is the entry.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/mmap_file.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_header.h"
#include "engine/gguf/metadata.h"
#include "engine/gguf/split_name.h"

namespace baton::engine {

// A model: one file, or all parts of a split set, checked whole. Owns the mappings of the parts.
// Immutable, any thread.
class GgufModel {
 public:
  struct Part {
    std::string path;
    std::string file_name;  // last component: how workers find it
    uint64_t bytes = 0;
  };

  // Maps `path`, which is the only file or the first part, and the other parts beside it; reads
  // headers only.
  static absl::StatusOr<GgufModel> Open(const std::string& path);

  const Metadata& metadata() const { return headers_[0].metadata; }
  const GgufHeader& header(size_t part) const { return headers_[part]; }
  const std::vector<Part>& parts() const { return parts_; }
  const MmapFile& mapping(size_t part) const { return *mappings_[part]; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // of all parts, in order
  const TensorInfo* FindTensor(std::string_view name) const;           // nullptr: absent
  uint64_t total_bytes() const;

 private:
  absl::Status AddPart(const std::string& path);
  absl::Status AddLaterParts(SplitName name, const SplitKeys& first);
  absl::Status IndexTensors();

  std::vector<Part> parts_;
  std::vector<std::unique_ptr<MmapFile>> mappings_;
  std::vector<GgufHeader> headers_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
};

}  // namespace baton::engine
