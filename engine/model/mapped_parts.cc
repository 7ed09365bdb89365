#include "engine/model/mapped_parts.h"

#include <filesystem>

#include "kernels/quant_types.h"

namespace baton::engine {
namespace {

constexpr uint64_t kPlacementAlignment = 4;  // of F32 vectors, which are read in place

absl::Status CheckShape(const TensorPlacement& tensor) {
  if (!kernels::IsDefinedQuantType(static_cast<uint32_t>(tensor.type))) {
    return InvalidArgument("{}: type id {}, expected one that is defined", tensor.name,
                           static_cast<uint32_t>(tensor.type));
  }
  if (tensor.ne.empty() || tensor.ne.size() > kMaxTensorDims) {
    return InvalidArgument("{}: {} dimensions, expected 1 to {}", tensor.name, tensor.ne.size(),
                           kMaxTensorDims);
  }
  const kernels::QuantTraits& traits = kernels::TraitsOf(tensor.type);
  int64_t rows = 1;
  for (size_t i = 0; i < tensor.ne.size(); ++i) {
    if (tensor.ne[i] <= 0)
      return InvalidArgument("{}: a dimension of {}", tensor.name, tensor.ne[i]);
    if (i > 0 && __builtin_mul_overflow(rows, tensor.ne[i], &rows)) {
      return InvalidArgument("{}: shape {} overflows", tensor.name, ShapeString(tensor.ne));
    }
  }
  int64_t bytes = 0;
  if (tensor.ne[0] % traits.block_size != 0 ||
      __builtin_mul_overflow(tensor.ne[0] / traits.block_size, traits.block_bytes, &bytes) ||
      __builtin_mul_overflow(bytes, rows, &bytes) || static_cast<uint64_t>(bytes) != tensor.bytes) {
    return InvalidArgument("{}: {} bytes for shape {} of type {}", tensor.name, tensor.bytes,
                           ShapeString(tensor.ne), traits.name);
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const TensorPlacement& tensor, const std::vector<PartFile>& parts) {
  if (tensor.part >= parts.size()) {
    return InvalidArgument("{}: part {}, expected 0 to {}", tensor.name, tensor.part,
                           parts.size() - 1);
  }
  const uint64_t size = parts[tensor.part].bytes;
  if (tensor.file_offset > size || tensor.bytes > size - tensor.file_offset) {
    return InvalidArgument("{}: {} bytes at {}, expected within the {} bytes of {}", tensor.name,
                           tensor.bytes, tensor.file_offset, size, parts[tensor.part].file_name);
  }
  if (tensor.file_offset % kPlacementAlignment != 0) {
    return InvalidArgument("{}: offset {}, expected a multiple of {}", tensor.name,
                           tensor.file_offset, kPlacementAlignment);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MmapFile>> OpenPart(const PartFile& part, const std::string& dir) {
  const std::string& name = part.file_name;
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    return InvalidArgument("part \"{}\": expected the name of a file in the models folder", name);
  }
  ASSIGN_OR_RETURN(auto file, MmapFile::Open((std::filesystem::path(dir) / name).string()));
  if (file->size() != part.bytes) {
    return FailedPrecondition("{}: {} bytes, expected {} as the coordinator's has", file->path(),
                              file->size(), part.bytes);
  }
  return file;
}

}  // namespace

absl::StatusOr<MappedParts> MappedParts::Open(const StageSpec& spec, const std::string& dir) {
  MappedParts mapped;
  mapped.parts_.resize(spec.parts.size());
  for (const TensorPlacement& tensor : spec.tensors) {
    auto& part = mapped.parts_[tensor.part];
    if (part != nullptr) continue;
    ASSIGN_OR_RETURN(part, OpenPart(spec.parts[tensor.part], dir));
  }
  return mapped;
}

absl::Status CheckPlacements(const StageSpec& spec) {
  for (const TensorPlacement& tensor : spec.tensors) {
    RETURN_IF_ERROR(CheckShape(tensor));
    RETURN_IF_ERROR(CheckPlace(tensor, spec.parts));
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
