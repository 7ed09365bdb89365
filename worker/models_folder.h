// The GGUF files of a worker's models folder.
#pragma once

#include <string>
#include <vector>

#include "engine/arch/stage_spec.h"
#include "engine/base/status.h"

namespace baton::worker {

inline constexpr std::string_view kModelSuffix = ".gguf";

// NotFound where there is no such folder.
absl::StatusOr<std::vector<engine::PartFile>> ListModels(const std::string& models_dir);

}  // namespace baton::worker
