// Which file a model's name means.
#pragma once

#include <string>

#include "engine/base/status.h"

namespace baton::cli {

// Where fetched models are kept: $XDG_CACHE_HOME/baton/models.
std::string ModelCacheDir();

// A path as it is; else a name in the cache, with or without ".gguf". NotFound says where it was
// looked for.
absl::StatusOr<std::string> FindModel(const std::string& name);

}  // namespace baton::cli
