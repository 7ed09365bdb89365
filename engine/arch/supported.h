// Whether this build can run a file and, if not, what stands in the way.
#pragma once

#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"

namespace baton::engine {

// From headers alone: architecture, every key it reads, every tensor's presence, shape and type.
// The error names the first key, tensor or type that stands in the way.
absl::Status CheckSupported(const GgufModel& model);

}  // namespace baton::engine
