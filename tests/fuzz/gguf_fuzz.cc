// Any bytes as a GGUF header. A sound answer is an error, or tensors that lie
// inside the file and values that can be read.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/gguf/gguf_header.h"
#include "engine/gguf/gguf_writer.h"
#include "tests/fuzz/target.h"

namespace baton::fuzz {

using namespace engine;

namespace {

void ReadAllValues(const Metadata& metadata) {
  for (const Metadata::Entry& entry : metadata.entries()) {
    Require(metadata.Has(entry.key));
    const int readable = metadata.GetUint(entry.key).ok() + metadata.GetInt(entry.key).ok() +
                         metadata.GetFloat(entry.key).ok() + metadata.GetBool(entry.key).ok() +
                         metadata.GetString(entry.key).ok() + metadata.GetStrings(entry.key).ok() +
                         metadata.GetInts(entry.key).ok() + metadata.GetFloats(entry.key).ok();
    // An array of u64 may hold what fits no i64; all else has a getter that takes it.
    Require(readable > 0 || entry.value.element == GgufType::kUint64);
    if (entry.value.type == GgufType::kArray) {
      Require(Elements(entry.value).size() == entry.value.count);
    }
  }
}

void CheckTensors(const GgufHeader& header) {
  for (const TensorInfo& tensor : header.tensors) {
    Require(tensor.file_offset >= header.data_offset);
    Require(tensor.file_offset <= header.file_bytes);
    Require(tensor.bytes <= header.file_bytes - tensor.file_offset);
    Require((tensor.file_offset - header.data_offset) % header.alignment == 0);
    Require(!ShapeString(tensor.ne).empty());
  }
}

void Parse(std::string_view bytes, uint64_t file_bytes) {
  const auto header = ParseGgufHeader(bytes, file_bytes, "fuzz.gguf");
  if (!header.ok()) {
    Require(absl::IsDataLoss(header.status()));
    return;
  }
  ReadAllValues(header->metadata);
  CheckTensors(*header);
}

}  // namespace

std::vector<std::string> GgufSeeds() {
  GgufWriter writer;
  writer.SetString("general.architecture", "seed");
  writer.SetUint32(kAlignmentKey, 8);
  writer.SetBool("flag", true);
  writer.SetFloats("floats", std::vector<float>{1, 2});
  writer.SetStrings("strings", std::vector<std::string>{"a", "bc"});
  writer.AddTensor("t", std::vector<int64_t>{32, 2}, kernels::QuantType::kQ4_0);
  writer.AddTensor("u", std::vector<int64_t>{1}, kernels::QuantType::kF32);
  return {writer.Header() + std::string(writer.TensorOffsets().back(), '\0')};
}

void FuzzGguf(std::string_view input) {
  Parse(input, input.size());
  Parse(input, input.size() + (1 << 20));  // a header that came without its file
}

}  // namespace baton::fuzz
