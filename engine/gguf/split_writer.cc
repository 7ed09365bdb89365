#include "engine/gguf/split_writer.h"

#include <algorithm>
#include <numeric>

#include "engine/base/mmap_file.h"
#include "engine/gguf/gguf_writer.h"
#include "engine/gguf/hashing_stream.h"
#include "engine/gguf/split_name.h"

namespace baton::engine {
namespace {

constexpr size_t kChunkBytes = 4 << 20;
constexpr uint64_t kPasses = 2;  // over all bytes: written, read back

bool IsSplitKey(std::string_view key) {
  return key == kSplitNoKey || key == kSplitCountKey || key == kSplitTensorsCountKey;
}

// One file to be written: its header, and which tensors of the model it holds.
struct FilePlan {
  std::string path;
  GgufWriter writer;
  std::vector<size_t> tensors;
};

FilePlan PlanFile(const GgufModel& model, std::string path, std::vector<size_t> tensors,
                  bool with_metadata) {
  FilePlan file{.path = std::move(path), .writer = {}, .tensors = std::move(tensors)};
  for (const Metadata::Entry& entry : model.metadata().entries()) {
    const bool wanted = with_metadata || entry.key == kAlignmentKey;
    if (wanted && !IsSplitKey(entry.key)) file.writer.SetValue(entry.key, entry.value);
  }
  for (const size_t index : file.tensors) {
    const TensorInfo& tensor = model.tensors()[index];
    file.writer.AddTensor(tensor.name, std::span(tensor.ne.data(), tensor.num_dims), tensor.type);
  }
  return file;
}

class FileWriter {
 public:
  FileWriter(const GgufModel& model, const WriteProgress& progress, uint64_t total_bytes)
      : model_(model), progress_(progress), total_bytes_(total_bytes) {}

  absl::StatusOr<WrittenPart> Write(const FilePlan& file) {
    WrittenPart part = {.path = file.path, .num_tensors = file.tensors.size()};
    uint64_t done_before = done_bytes_;
    ASSIGN_OR_RETURN(part.was_there, IsWhole(file));
    if (!part.was_there) {
      done_bytes_ = done_before;
      RETURN_IF_ERROR(file.writer.WriteTo(file.path, DataOf(file)));
      ASSIGN_OR_RETURN(const bool whole, IsWhole(file));
      if (!whole) return DataLoss("{}: read back other bytes than written", file.path);
    }
    for (const size_t index : file.tensors) done_before += kPasses * model_.tensors()[index].bytes;
    done_bytes_ = done_before;
    part.bytes = expected_bytes_;
    part.xxh3 = expected_hash_;
    return part;
  }

 private:
  // Whether the file is there with the bytes that it should have; these are hashed on the way.
  absl::StatusOr<bool> IsWhole(const FilePlan& file) {
    const auto there = MmapFile::Open(file.path);
    if (absl::IsNotFound(there.status())) return false;
    RETURN_IF_ERROR(there.status());
    HashingBuffer expected(nullptr);
    std::ostream out(&expected);
    RETURN_IF_ERROR(file.writer.WriteStream(out, DataOf(file)));
    expected_bytes_ = expected.bytes();
    expected_hash_ = expected.hash();
    if ((*there)->size() != expected_bytes_) return false;
    HashingBuffer found(nullptr);
    found.sputn((*there)->view().data(), static_cast<std::streamsize>((*there)->size()));
    return found.hash() == expected_hash_;
  }

  GgufWriter::TensorData DataOf(const FilePlan& file) {
    return [this, &file](size_t index, std::ostream& out) {
      const TensorInfo& tensor = model_.tensors()[file.tensors[index]];
      std::string_view data =
          model_.mapping(tensor.part).view().substr(tensor.file_offset, tensor.bytes);
      while (!data.empty() && out) {
        const std::string_view chunk = data.substr(0, kChunkBytes);
        out << chunk;
        data.remove_prefix(chunk.size());
        done_bytes_ += chunk.size();
        if (progress_) progress_(done_bytes_, total_bytes_);
      }
      return absl::OkStatus();
    };
  }

  const GgufModel& model_;
  const WriteProgress& progress_;
  const uint64_t total_bytes_;
  uint64_t done_bytes_ = 0;
  uint64_t expected_bytes_ = 0;
  uint64_t expected_hash_ = 0;
};

uint64_t TensorBytes(const GgufModel& model) {
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : model.tensors()) bytes += tensor.bytes;
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<WrittenPart>> WriteSplit(const GgufModel& model, const SplitPlan& plan,
                                                    const std::string& prefix,
                                                    const WriteProgress& progress) {
  FileWriter writer(model, progress, kPasses * TensorBytes(model));
  SplitName name = {.prefix = prefix, .no = 0, .count = static_cast<uint32_t>(plan.size())};
  std::vector<WrittenPart> parts;
  for (; name.no < name.count; ++name.no) {
    FilePlan file = PlanFile(model, FormatSplitName(name), plan[name.no], name.no == 0);
    file.writer.SetUint16(kSplitNoKey, static_cast<uint16_t>(name.no));
    file.writer.SetUint16(kSplitCountKey, static_cast<uint16_t>(name.count));
    file.writer.SetInt32(kSplitTensorsCountKey, static_cast<int32_t>(model.tensors().size()));
    ASSIGN_OR_RETURN(WrittenPart part, writer.Write(file));
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::StatusOr<WrittenPart> WriteMerged(const GgufModel& model, const std::string& path,
                                        const WriteProgress& progress) {
  std::vector<size_t> all(model.tensors().size());
  std::iota(all.begin(), all.end(), size_t{0});
  FileWriter writer(model, progress, kPasses * TensorBytes(model));
  return writer.Write(PlanFile(model, path, std::move(all), /*with_metadata=*/true));
}

}  // namespace baton::engine
