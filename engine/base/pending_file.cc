#include "engine/base/pending_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace baton::engine {
namespace {

absl::Status CannotWrite(const std::string& path) {
  const int error = errno;
  if (error == EACCES || error == EPERM) return PermissionDenied("{}: permission denied", path);
  if (error == ENOSPC || error == EDQUOT)
    return ResourceExhausted("{}: {}", path, std::strerror(error));
  return Unknown("{}: cannot write: {}", path, std::strerror(error));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PendingFile>> PendingFile::Create(const std::string& path) {
  std::unique_ptr<PendingFile> file(new PendingFile(path));
  file->stream_.open(file->part_path_, std::ios::binary | std::ios::trunc);
  if (!file->stream_) {
    file->committed_ = true;  // nothing of ours to remove
    return CannotWrite(path);
  }
  return file;
}

PendingFile::~PendingFile() {
  if (committed_) return;
  stream_.close();
  std::remove(part_path_.c_str());
}

absl::Status PendingFile::Commit() {
  stream_.close();
  if (!stream_) return CannotWrite(path_);
  if (std::rename(part_path_.c_str(), path_.c_str()) != 0) return CannotWrite(path_);
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace baton::engine
