#include "engine/gguf/split_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace baton::engine {
namespace {

constexpr size_t kMaxParts = 65535;  // split.count is u16, file names have five digits

absl::Status CheckNumParts(size_t num_parts) {
  if (num_parts >= 1 && num_parts <= kMaxParts) return absl::OkStatus();
  return InvalidArgument("{} parts, expected 1 to {}", num_parts, kMaxParts);
}

}  // namespace

absl::StatusOr<SplitPlan> SplitByCount(std::span<const TensorInfo> tensors, size_t num_parts) {
  RETURN_IF_ERROR(CheckNumParts(num_parts));
  if (num_parts > std::max<size_t>(tensors.size(), 1)) {
    return InvalidArgument("{} parts, but the model has only {} tensors", num_parts,
                           tensors.size());
  }
  uint64_t rest = 0;
  for (const TensorInfo& tensor : tensors) rest += tensor.bytes;

  SplitPlan plan(num_parts);
  size_t next = 0;
  for (size_t part = 0; part < num_parts; ++part) {
    const size_t parts_left = num_parts - part;
    const uint64_t wanted = rest / parts_left;
    uint64_t bytes = 0;
    // Ends at the tensor that would overshoot by more than it fills; leaves one for each part.
    while (tensors.size() - next >= parts_left) {
      const uint64_t size = tensors[next].bytes;
      const bool last = parts_left == 1;
      if (!last && !plan[part].empty() && 2 * bytes + size > 2 * wanted) break;
      plan[part].push_back(next++);
      bytes += size;
    }
    rest -= bytes;
  }
  return plan;
}

absl::StatusOr<SplitPlan> SplitBySize(std::span<const TensorInfo> tensors, uint64_t max_bytes) {
  if (max_bytes == 0) return InvalidArgument("part size of 0 bytes");
  SplitPlan plan(1);
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!plan.back().empty() && tensors[i].bytes > max_bytes - std::min(bytes, max_bytes)) {
      plan.emplace_back();
      bytes = 0;
    }
    plan.back().push_back(i);
    bytes += tensors[i].bytes;
  }
  RETURN_IF_ERROR(CheckNumParts(plan.size()));
  return plan;
}

absl::StatusOr<SplitPlan> SplitByStages(std::span<const TensorInfo> tensors,
                                        std::span<const std::vector<size_t>> stage_tensors) {
  std::vector<std::vector<size_t>> stages_of(tensors.size());
  for (size_t stage = 0; stage < stage_tensors.size(); ++stage) {
    for (const size_t tensor : stage_tensors[stage]) {
      if (stages_of[tensor].empty() || stages_of[tensor].back() != stage) {
        stages_of[tensor].push_back(stage);
      }
    }
  }
  SplitPlan plan(1 + stage_tensors.size());
  std::map<std::vector<size_t>, std::vector<size_t>> shared;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<size_t>& stages = stages_of[i];
    if (stages.size() == 1) {
      plan[1 + stages[0]].push_back(i);
    } else {
      shared[stages].push_back(i);
    }
  }
  const auto unused = shared.extract(std::vector<size_t>());
  for (const auto& [stages, group] : shared) plan.push_back(group);
  if (!unused.empty()) plan.push_back(unused.mapped());
  RETURN_IF_ERROR(CheckNumParts(plan.size()));
  return plan;
}

}  // namespace baton::engine
