// The files of a model that a stage reads, mapped: only the parts that hold its tensors.
//
// Owner: a stage; must outlive its weights. Immutable after Open.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/arch/stage_spec.h"
#include "engine/base/mmap_file.h"
#include "engine/base/status.h"

namespace baton::engine {

class MappedParts {
 public:
  // Looks each part up in `dir` by its file name and checks its size. NotFound and
  // FailedPrecondition name the file.
  static absl::StatusOr<MappedParts> Open(const StageSpec& spec, const std::string& dir);

  const std::byte* Locate(uint32_t part, uint64_t offset) const {
    return parts_[part]->data() + offset;
  }
  void PreferHugePages(uint32_t part, uint64_t offset, uint64_t bytes) const {
    parts_[part]->PreferHugePages(offset, bytes);
  }
  absl::Status Lock(uint32_t part, uint64_t offset, uint64_t bytes) const {
    return parts_[part]->Lock(offset, bytes);
  }

 private:
  std::vector<std::unique_ptr<MmapFile>> parts_;  // null: holds none of the stage's tensors
};

// Whether the placements of a spec that came from outside are sound: types, shapes, sizes, and all
// within their parts.
absl::Status CheckPlacements(const StageSpec& spec);

}  // namespace baton::engine
