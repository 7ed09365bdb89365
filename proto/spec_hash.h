// Names for what workers hold: equal ones mean the same on every machine and in every build of one
// protocol version.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/arch/stage_spec.h"
#include "engine/base/token_id.h"

namespace baton::wire {

// 128 bits as hexadecimal digits over every field of the spec.
std::string SpecHash(const engine::StageSpec& spec);

// The same over what the bits of a sequence's keys and values depend on, besides the layers and the
// backend: the model, the configured context and the tokens.
std::string TokensHash(std::string_view fingerprint, int32_t context_length,
                       std::span<const engine::TokenId> tokens);

// Of a text, byte for byte.
std::string TextHash(std::string_view text);

}  // namespace baton::wire
