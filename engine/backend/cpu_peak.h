// What this machine's CPUs can at most compute: the measure that products are held against.
#pragma once

#include "engine/base/status.h"

namespace baton::engine {

// Operations a second of 8-bit products from registers to registers, by the instruction set that
// the CPU backend uses; a multiply-add is two.
absl::StatusOr<double> MeasureInt8OpsPerSecond(int threads);

}  // namespace baton::engine
