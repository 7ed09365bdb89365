#include "worker/part_watch.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace baton::worker {

absl::StatusOr<PartWatch::Part> PartWatch::Look(const std::string& path) const {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return NotFound("{}: {}", path, std::strerror(errno));
  return Part{.path = path,
              .device = info.st_dev,
              .inode = info.st_ino,
              .bytes = info.st_size,
              .modified_ns = may_be_written_ ? 0
                                             : info.st_mtim.tv_sec * int64_t{1'000'000'000} +
                                                   info.st_mtim.tv_nsec};
}

absl::StatusOr<PartWatch> PartWatch::Start(const engine::StageSpec& spec, const std::string& dir,
                                           bool may_be_written) {
  std::set<uint32_t> used;
  for (const engine::TensorPlacement& tensor : spec.tensors) used.insert(tensor.part);
  PartWatch watch;
  watch.may_be_written_ = may_be_written;
  for (const uint32_t index : used) {
    if (index >= spec.parts.size()) {
      return InvalidArgument("part {}: the model has {}", index, spec.parts.size());
    }
    ASSIGN_OR_RETURN(Part part, watch.Look(dir + "/" + spec.parts[index].file_name));
    watch.parts_.push_back(std::move(part));
  }
  return watch;
}

absl::Status PartWatch::Check() const {
  for (const Part& part : parts_) {
    const absl::StatusOr<Part> now = Look(part.path);
    if (!now.ok())
      return DataLoss("the file behind the weights has gone: {}", Message(now.status()));
    if (*now != part)
      return DataLoss("{}: the file behind the weights has changed since it was loaded", part.path);
  }
  return absl::OkStatus();
}

}  // namespace baton::worker
