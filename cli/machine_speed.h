// What this machine can do at best: the measures that a model's speed is held against.
#pragma once

#include "engine/base/status.h"

namespace baton::cli {

// Bytes a second that so many threads together read from memory.
double MeasureReadBytesPerSecond(int threads);

// Operations a second of 8-bit matrix products by our own fastest kernel, on weights in cache; a
// multiply-add is two.
absl::StatusOr<double> MeasureInt8OpsPerSecond(int threads);

}  // namespace baton::cli
