#include "engine/gguf/gguf_file.h"

#include <filesystem>
#include <optional>

#include "engine/base/quote.h"
#include "engine/gguf/split_name.h"

namespace baton::engine {
namespace {

std::string FileName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

absl::Status Corrupt(const std::string& path, const absl::Status& status) {
  return DataLoss("{}: {}", path, Message(status));
}

absl::StatusOr<SplitKeys> ReadSplitKeys(const Metadata& metadata, const std::string& path) {
  const auto count = metadata.FindUint(kSplitCountKey);
  if (!count.ok()) return Corrupt(path, count.status());
  if (count->value_or(0) <= 1) return SplitKeys{};
  const auto no = metadata.GetUint(kSplitNoKey);
  if (!no.ok()) return Corrupt(path, no.status());
  const auto num_tensors = metadata.FindUint(kSplitTensorsCountKey);
  if (!num_tensors.ok()) return Corrupt(path, num_tensors.status());
  return SplitKeys{.no = *no, .count = **count, .num_tensors = *num_tensors};
}

// The name of a set's first part, checked against the keys in it.
absl::StatusOr<SplitName> CheckFirstPart(const std::string& path, const SplitKeys& keys) {
  std::optional<SplitName> name = ParseSplitName(path);
  if (!name) {
    return DataLoss(
        "{}: {} is {}, but the file name does not say so, expected NAME-00001-of-{:05}.gguf", path,
        kSplitCountKey, keys.count, keys.count);
  }
  if (name->count != keys.count) {
    return DataLoss("{}: {} is {}, expected {} by the file name", path, kSplitCountKey, keys.count,
                    name->count);
  }
  if (keys.no != name->no) {
    return DataLoss("{}: {} is {}, expected {} by the file name", path, kSplitNoKey, keys.no,
                    name->no);
  }
  if (keys.no != 0) {
    const SplitName first = {.prefix = name->prefix, .no = 0, .count = name->count};
    return DataLoss("{}: part {} of a split model, open the first part: {}", path, keys.no + 1,
                    FormatSplitName(first));
  }
  if (!keys.num_tensors) {
    return DataLoss("{}: {}: key is missing, expected in a split model", path,
                    kSplitTensorsCountKey);
  }
  return *std::move(name);
}

absl::Status CheckLaterPart(const std::string& path, const SplitKeys& keys, uint64_t no,
                            const SplitKeys& first) {
  if (keys.count != first.count) {
    return DataLoss("{}: {} is {}, expected {} as in the first part", path, kSplitCountKey,
                    keys.count, first.count);
  }
  if (keys.no != no) {
    return DataLoss("{}: {} is {}, expected {} by the file name", path, kSplitNoKey, keys.no, no);
  }
  if (keys.num_tensors && *keys.num_tensors != *first.num_tensors) {
    return DataLoss("{}: {} is {}, expected {} as in the first part", path, kSplitTensorsCountKey,
                    *keys.num_tensors, *first.num_tensors);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GgufModel> GgufModel::Open(const std::string& path) {
  GgufModel model;
  RETURN_IF_ERROR(model.AddPart(path));
  ASSIGN_OR_RETURN(const SplitKeys keys, ReadSplitKeys(model.metadata(), path));
  if (keys.count > 0) {
    ASSIGN_OR_RETURN(const SplitName name, CheckFirstPart(path, keys));
    RETURN_IF_ERROR(model.AddLaterParts(name, keys));
  }
  RETURN_IF_ERROR(model.IndexTensors());
  if (keys.count > 0 && model.tensors_.size() != *keys.num_tensors) {
    return DataLoss("{}: {} is {}, but the {} parts hold {} tensors", path, kSplitTensorsCountKey,
                    *keys.num_tensors, keys.count, model.tensors_.size());
  }
  return model;
}

absl::Status GgufModel::AddLaterParts(SplitName name, const SplitKeys& first) {
  for (name.no = 1; name.no < name.count; ++name.no) {
    const std::string path = FormatSplitName(name);
    const absl::Status added = AddPart(path);
    if (absl::IsNotFound(added)) {
      return DataLoss("{}: missing: no such file, part {} of {}", path, name.no + 1, name.count);
    }
    RETURN_IF_ERROR(added);
    ASSIGN_OR_RETURN(const SplitKeys keys, ReadSplitKeys(headers_.back().metadata, path));
    RETURN_IF_ERROR(CheckLaterPart(path, keys, name.no, first));
  }
  return absl::OkStatus();
}

absl::Status GgufModel::AddPart(const std::string& path) {
  ASSIGN_OR_RETURN(auto mapping, MmapFile::Open(path));
  ASSIGN_OR_RETURN(GgufHeader header, ParseGgufHeader(mapping->view(), mapping->size(), path));
  parts_.push_back({.path = path, .file_name = FileName(path), .bytes = mapping->size()});
  mappings_.push_back(std::move(mapping));
  headers_.push_back(std::move(header));
  return absl::OkStatus();
}

absl::Status GgufModel::IndexTensors() {
  for (uint32_t part = 0; part < headers_.size(); ++part) {
    for (TensorInfo tensor : headers_[part].tensors) {
      tensor.part = part;
      const auto [found, inserted] = index_.emplace(tensor.name, tensors_.size());
      if (!inserted) {
        return DataLoss("{}: {}: duplicate tensor, also in {}", parts_[part].path,
                        Named(tensor.name), parts_[tensors_[found->second].part].path);
      }
      tensors_.push_back(tensor);
    }
  }
  return absl::OkStatus();
}

const TensorInfo* GgufModel::FindTensor(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

uint64_t GgufModel::total_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.bytes;
  return bytes;
}

}  // namespace baton::engine
