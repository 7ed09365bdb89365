// A file mapped read-only from its first byte to its last. Owns the mapping; any thread may read
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace baton::engine {

class MmapFile {
 public:
  // NotFound, DataLoss (an empty file maps to no bytes and is not an error) or Unknown with the
  // system's reason.
  static absl::StatusOr<std::unique_ptr<MmapFile>> Open(const std::string& path);
  ~MmapFile();
  MmapFile(const MmapFile&) = delete;
  MmapFile& operator=(const MmapFile&) = delete;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }

  // Hints and pins for a byte range; the range is widened to pages.
  // Huge pages: what is not in the system's cache yet is read so that it may be mapped by them,
  // where the file system can (ext4 and XFS of recent kernels, tmpfs). Fewer addresses to translate
  // make decode faster.
  void PreferHugePages(size_t offset, size_t bytes) const;
  absl::Status Lock(size_t offset,
                    size_t bytes) const;  // mlock; the error says the limit and the need

 private:
  MmapFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace baton::engine
