#include "worker/file_reactors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/mmap_file.h"
#include "engine/base/quote.h"
#include "engine/gguf/gguf_header.h"
#include "proto/channel_options.h"
#include "proto/status_convert.h"
#include "worker/models_folder.h"

namespace baton::worker {
namespace {

// Owns a file descriptor.
class OpenFile {
 public:
  OpenFile() = default;
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  absl::Status Open(const std::string& path) {
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd_ < 0 || fstat(fd_, &info) != 0) return NotFound("{}: {}", path, std::strerror(errno));
    if (!S_ISREG(info.st_mode)) return InvalidArgument("{}: not a regular file", path);
    bytes_ = static_cast<uint64_t>(info.st_size);
    return absl::OkStatus();
  }
  absl::Status Read(uint64_t offset, std::string* data) const {
    for (size_t done = 0; done < data->size();) {
      const ssize_t count =
          pread(fd_, data->data() + done, data->size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0)
        return DataLoss("byte {}: {}", offset + done,
                        count < 0 ? std::strerror(errno) : "the file has become shorter");
      done += static_cast<size_t>(count);
    }
    return absl::OkStatus();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

// A name from the wire must not lead out of the folder, nor to other files than models.
absl::StatusOr<std::string> PathOf(const std::string& models_dir, const std::string& file_name) {
  if (models_dir.empty()) return FailedPrecondition("this worker has no models folder");
  if (!std::string_view(file_name).ends_with(kModelSuffix) ||
      file_name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return InvalidArgument("file \"{}\": expected the name of a {} file without a folder",
                           engine::Named(file_name), kModelSuffix);
  }
  return models_dir + "/" + file_name;
}

absl::StatusOr<uint64_t> HeaderBytes(const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, engine::MmapFile::Open(path));
  ASSIGN_OR_RETURN(const engine::GgufHeader header,
                   engine::ParseGgufHeader(file->view(), file->size(), path));
  return std::min<uint64_t>(header.data_offset, file->size());
}

absl::Status ListFiles(const std::string& models_dir, v1::FileChunk* list) {
  ASSIGN_OR_RETURN(const std::vector<engine::PartFile> files, ListModels(models_dir));
  for (const engine::PartFile& file : files) {
    v1::Part* entry = list->add_files();
    entry->set_file_name(file.file_name);
    entry->set_bytes(file.bytes);
  }
  return absl::OkStatus();
}

// Sends bytes [offset, end) of a file, one chunk after another: each is read when the one before is
// written.
class FileReactor : public grpc::ServerWriteReactor<v1::FileChunk> {
 public:
  explicit FileReactor(SerialExecutor* reads) : reads_(reads) {}

  void OnWriteDone(bool ok) override {
    if (!ok || offset_ >= end_) return Finish(grpc::Status::OK);
    Schedule();
  }
  void OnDone() override { delete this; }

 protected:
  // Runs ReadNext on the reading thread.
  void Schedule() {
    const bool accepted = reads_->Run([this] {
      absl::Status status = opened_ ? ReadNext() : Open();
      if (!status.ok()) Finish(wire::ToGrpc(status));
    });
    if (!accepted) Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many files are being read"});
  }

  // Opens the file and writes the first chunk.
  virtual absl::Status Open() = 0;

  absl::Status Begin(const std::string& path, uint64_t offset, uint64_t end) {
    RETURN_IF_ERROR(file_.Open(path));
    if (offset > file_.bytes() || end < offset || end > file_.bytes()) {
      return InvalidArgument("{}: bytes [{}, {}), but the file has {}", path, offset, end,
                             file_.bytes());
    }
    path_ = path;
    offset_ = offset;
    end_ = end;
    opened_ = true;
    return ReadNext();
  }

  v1::FileChunk chunk_;

 private:
  absl::Status ReadNext() {
    std::string& data = *chunk_.mutable_data();
    data.resize(std::min<uint64_t>(end_ - offset_, wire::kMaxChunkBytes));
    RETURN_IF_ERROR(Prefixed(file_.Read(offset_, &data), path_));
    chunk_.set_offset(offset_);
    chunk_.set_file_bytes(file_.bytes());
    chunk_.set_hash(XXH3_64bits(data.data(), data.size()));
    offset_ += data.size();
    StartWrite(&chunk_);
    return absl::OkStatus();
  }

  SerialExecutor* const reads_;
  OpenFile file_;
  std::string path_;
  bool opened_ = false;
  uint64_t offset_ = 0;
  uint64_t end_ = 0;
};

class ReadHeaderReactor : public FileReactor {
 public:
  ReadHeaderReactor(std::string models_dir, std::string file_name, SerialExecutor* reads)
      : FileReactor(reads), models_dir_(std::move(models_dir)), file_name_(std::move(file_name)) {
    Schedule();
  }

 private:
  absl::Status Open() override {
    if (file_name_.empty()) {
      RETURN_IF_ERROR(ListFiles(models_dir_, &chunk_));
      StartWrite(&chunk_);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::string path, PathOf(models_dir_, file_name_));
    ASSIGN_OR_RETURN(const uint64_t bytes, HeaderBytes(path));
    return Begin(path, 0, bytes);
  }

  const std::string models_dir_;
  const std::string file_name_;
};

class ReadPartReactor : public FileReactor {
 public:
  ReadPartReactor(std::string models_dir, v1::ReadPartRequest request, SerialExecutor* reads)
      : FileReactor(reads), models_dir_(std::move(models_dir)), request_(std::move(request)) {
    Schedule();
  }

 private:
  absl::Status Open() override {
    ASSIGN_OR_RETURN(const std::string path, PathOf(models_dir_, request_.file_name()));
    uint64_t end = 0;
    if (__builtin_add_overflow(request_.offset(), request_.bytes(), &end)) {
      return InvalidArgument("{}: {} bytes at {}", path, request_.bytes(), request_.offset());
    }
    return Begin(path, request_.offset(), end);
  }

  const std::string models_dir_;
  const v1::ReadPartRequest request_;
};

}  // namespace

grpc::ServerWriteReactor<v1::FileChunk>* NewReadHeaderReactor(const std::string& models_dir,
                                                              const v1::ReadHeaderRequest& request,
                                                              SerialExecutor* reads) {
  return new ReadHeaderReactor(models_dir, request.file_name(), reads);
}

grpc::ServerWriteReactor<v1::FileChunk>* NewReadPartReactor(const std::string& models_dir,
                                                            const v1::ReadPartRequest& request,
                                                            SerialExecutor* reads) {
  return new ReadPartReactor(models_dir, request, reads);
}

}  // namespace baton::worker
