// BATON_ISA, checked before anything runs.
#pragma once

#include "engine/base/status.h"

namespace baton::cli {

// A usage error where BATON_ISA names an instruction set that is unknown or not there.
absl::Status CheckInstructionSet();

}  // namespace baton::cli
