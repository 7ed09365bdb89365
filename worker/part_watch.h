// Notices model files that are replaced or cut while a stage is mapped from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/arch/stage_spec.h"
#include "engine/base/status.h"

namespace baton::worker {

// A value; remembers what the files of a spec were like.
class PartWatch {
 public:
  // Of the parts that the spec's tensors are in; NotFound names the one that isn't there. With
  // `may_be_written` their times of change mean nothing.
  static absl::StatusOr<PartWatch> Start(const engine::StageSpec& spec, const std::string& dir,
                                         bool may_be_written);
  // DataLoss names the file that isn't what it was.
  absl::Status Check() const;

 private:
  struct Part {
    std::string path;
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t bytes = 0;
    int64_t modified_ns = 0;
    bool operator==(const Part&) const = default;
  };
  absl::StatusOr<Part> Look(const std::string& path) const;

  bool may_be_written_ = false;
  std::vector<Part> parts_;
};

}  // namespace baton::worker
