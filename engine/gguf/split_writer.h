// Writes a model as a split set, or as one file. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/gguf/split_plan.h"

namespace baton::engine {

struct WrittenPart {
  std::string path;
  uint64_t bytes = 0;
  uint64_t xxh3 = 0;  // of the whole file
  size_t num_tensors = 0;
  bool was_there = false;  // whole already, left alone
};

// Bytes of all parts that are done, and of all there are; called often.
using WriteProgress = std::function<void(uint64_t done, uint64_t total)>;

// PREFIX-00001-of-0000N.gguf and so on. The first part has the metadata, the others only the keys
// that make them parts. A part that is there and has the right hash is kept, so that a run that
// was stopped goes on; each part written is read back and compared.
absl::StatusOr<std::vector<WrittenPart>> WriteSplit(const GgufModel& model, const SplitPlan& plan,
                                                    const std::string& prefix,
                                                    const WriteProgress& progress);

// All parts as one file without split keys.
absl::StatusOr<WrittenPart> WriteMerged(const GgufModel& model, const std::string& path,
                                        const WriteProgress& progress);

}  // namespace baton::engine
