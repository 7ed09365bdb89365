#include "proto/version.h"

#include "engine/base/quote.h"

namespace baton::wire {

std::string_view BuildId() { return BATON_BUILD_ID; }

absl::Status CheckSameVersion(std::string_view peer, uint32_t protocol_version,
                              std::string_view build) {
  if (protocol_version == kProtocolVersion && build == BuildId()) return absl::OkStatus();
  return FailedPrecondition(
      "version mismatch: {} runs protocol {}, build {}; this side runs protocol {}, build {}", peer,
      protocol_version, engine::Named(build), kProtocolVersion, BuildId());
}

}  // namespace baton::wire
