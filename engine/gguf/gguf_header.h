// One GGUF v2 or v3 file up to its data section: metadata and tensor directory, as views.
//
// Nothing of the data section is read. Every length is checked against the bytes that remain before
// anything is allocated. Where the format's text and practice differ, we accept any order of and
// gaps between tensors, names of up to 64 bytes, tensors of zero elements and string values that
// are not UTF-8; we refuse nested arrays, alignments that are not a power of two from 8 to 1 MiB,
// keys that are not printable ASCII, bools other than 0 and 1, duplicates and overlaps.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/gguf/metadata.h"
#include "kernels/quant_types.h"

namespace baton::engine {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr uint64_t kDefaultAlignment = 32;
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
  uint64_t alignment = kDefaultAlignment;
  uint64_t data_offset = 0;
  uint64_t file_bytes = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;  // file order; part is 0
};

// Parses a header. `bytes` is the file from its start, at least to the end of the header (a whole
// mapping, or what a worker sent); `file_bytes` is the size of the whole file, which the data must
// fit. `name` stands in errors.
absl::StatusOr<GgufHeader> ParseGgufHeader(std::string_view bytes, uint64_t file_bytes,
                                           std::string_view name);

// `offset` rounded up to a multiple of `alignment`, a power of two.
constexpr uint64_t AlignUp(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) & ~(alignment - 1);
}

}  // namespace baton::engine
