// Tells whether a worker already holds what it is asked to load.
#pragma once

#include <string>

#include "engine/arch/stage_spec.h"

namespace baton::wire {

// 128 bits as hexadecimal digits over every field of the spec: equal on every machine and in every
// build of one protocol version.
std::string SpecHash(const engine::StageSpec& spec);

}  // namespace baton::wire
