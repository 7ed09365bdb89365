#include "proto/spec_hash.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include "proto/load_convert.h"

namespace baton::wire {
namespace {

std::string Digits(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string SpecHash(const engine::StageSpec& spec) {
  v1::LoadStageRequest message;
  SpecToProto(spec, &message);
  // The message has no maps and no unknown fields, so its serialization is one and the same
  // everywhere.
  return Digits(message.SerializeAsString());
}

std::string TextHash(std::string_view text) { return Digits(text); }

std::string TokensHash(std::string_view fingerprint, int32_t context_length,
                       std::span<const engine::TokenId> tokens) {
  return Digits(fmt::format("{} {} {}", fingerprint, context_length, fmt::join(tokens, " ")));
}

}  // namespace baton::wire
