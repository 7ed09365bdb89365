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
  if (!file->stream_.Open(file->part_path_, BlockFile::Mode::kReplace)) {
    file->committed_ = true;  // nothing of ours to remove
    return CannotWrite(path);
  }
  return file;
}

PendingFile::~PendingFile() {
  if (committed_) return;
  stream_.Close();
  std::remove(part_path_.c_str());
}

absl::Status PendingFile::Commit() {
  if (!stream_.Close()) return CannotWrite(path_);
  if (std::rename(part_path_.c_str(), path_.c_str()) != 0) return CannotWrite(path_);
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace baton::engine
