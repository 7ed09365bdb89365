// A file that appears under its name only when it is whole: written as NAME.part, then renamed. One
// thread.
#pragma once

#include <memory>
#include <ostream>
#include <string>

#include "engine/base/block_file.h"
#include "engine/base/status.h"

namespace baton::engine {

class PendingFile {
 public:
  // Creates NAME.part, replacing what is there.
  static absl::StatusOr<std::unique_ptr<PendingFile>> Create(const std::string& path);
  ~PendingFile();  // not committed: NAME.part is removed
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  std::ostream& stream() { return stream_; }
  // Reports what any earlier write met, and gives the file its name.
  absl::Status Commit();

 private:
  explicit PendingFile(const std::string& path) : path_(path), part_path_(path + ".part") {}

  const std::string path_;
  const std::string part_path_;
  BlockFile stream_;
  bool committed_ = false;
};

}  // namespace baton::engine
