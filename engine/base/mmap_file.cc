#include "engine/base/mmap_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace baton::engine {
namespace {

absl::Status SystemError(const std::string& path, std::string_view what) {
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) return NotFound("{}: no such file", path);
  if (error == EACCES || error == EPERM) return PermissionDenied("{}: permission denied", path);
  return Unknown("{}: {}: {}", path, what, std::strerror(error));
}

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) close(fd);
  }
};

struct PageRange {
  size_t offset;
  size_t bytes;
};

PageRange WidenToPages(size_t offset, size_t bytes, size_t file_size) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = std::min(offset, file_size) / page * page;
  const size_t end = offset >= file_size ? begin : offset + std::min(bytes, file_size - offset);
  return {.offset = begin, .bytes = end - begin};
}

std::string LimitString(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : fmt::format("{} bytes", limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MmapFile>> MmapFile::Open(const std::string& path) {
  // O_NONBLOCK: a named pipe must be refused below, not waited for.
  const FileDescriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return SystemError(path, "cannot open");
  struct stat info;
  if (fstat(file.fd, &info) != 0) return SystemError(path, "cannot stat");
  if (!S_ISREG(info.st_mode)) {
    return DataLoss("{}: {}, expected a regular file", path,
                    S_ISDIR(info.st_mode) ? "is a directory" : "is not a regular file");
  }

  std::unique_ptr<MmapFile> mapped(new MmapFile);
  mapped->path_ = path;
  mapped->size_ = static_cast<size_t>(info.st_size);
  if (mapped->size_ == 0) return mapped;  // mmap refuses an empty range
  void* data = mmap(nullptr, mapped->size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return SystemError(path, "cannot map");
  mapped->data_ = static_cast<const std::byte*>(data);
  return mapped;
}

MmapFile::~MmapFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MmapFile::PreferHugePages(size_t offset, size_t bytes) const {
  const PageRange range = WidenToPages(offset, bytes, size_);
  if (range.bytes == 0) return;
  // Only a hint: what the system answers changes nothing.
  madvise(const_cast<std::byte*>(data_) + range.offset, range.bytes, MADV_HUGEPAGE);
}

absl::Status MmapFile::Lock(size_t offset, size_t bytes) const {
  const PageRange range = WidenToPages(offset, bytes, size_);
  if (range.bytes == 0 || mlock(data_ + range.offset, range.bytes) == 0) return absl::OkStatus();
  const int error = errno;
  rlimit limit;
  getrlimit(RLIMIT_MEMLOCK, &limit);
  // Only where the limit may be the cause is raising it good advice.
  const bool limited = limit.rlim_cur != RLIM_INFINITY && (error == ENOMEM || error == EPERM);
  return ResourceExhausted("{}: cannot lock {} bytes in memory: {} (locked memory limit: {}{})",
                           path_, range.bytes, std::strerror(error), LimitString(limit.rlim_cur),
                           limited ? "; raise it with ulimit -l" : "");
}

}  // namespace baton::engine
