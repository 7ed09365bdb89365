// Which tensor goes into which part of a split set. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/gguf/gguf_header.h"

namespace baton::engine {

// For each part, indices of tensors in rising order. Each tensor is in exactly one part.
using SplitPlan = std::vector<std::vector<size_t>>;

// `num_parts` runs of tensors of about equal bytes.
absl::StatusOr<SplitPlan> SplitByCount(std::span<const TensorInfo> tensors, size_t num_parts);

// Runs of tensors of at most `max_bytes` each; a larger tensor is a part of its own.
absl::StatusOr<SplitPlan> SplitBySize(std::span<const TensorInfo> tensors, uint64_t max_bytes);

// For a pipeline: stage_tensors[s] holds the indices of what stage s needs. The first part has no
// tensor, so that whoever plans needs no weights; then comes a part for each stage, then one for
// each set of stages that share tensors, so that a host stores only what its stage needs. A tensor
// that no stage needs stands in the last part of all.
absl::StatusOr<SplitPlan> SplitByStages(std::span<const TensorInfo> tensors,
                                        std::span<const std::vector<size_t>> stage_tensors);

}  // namespace baton::engine
