#include "proto/spec_hash.h"

#include <xxhash.h>

#include "proto/load_convert.h"

namespace baton::wire {

std::string SpecHash(const engine::StageSpec& spec) {
  v1::LoadStageRequest message;
  SpecToProto(spec, &message);
  // The message has no maps and no unknown fields, so its serialization is one and the same
  // everywhere.
  const std::string bytes = message.SerializeAsString();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace baton::wire
