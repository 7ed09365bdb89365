#include "proto/version.h"

#include "engine/base/quote.h"

namespace baton::wire {

// Read through a pointer that is not folded away: the id stands in the program once, so a copy with
// other letters there is another build to all others.
std::string_view BuildId() {
  static const char* const volatile id = BATON_BUILD_ID;
  return id;
}

absl::Status CheckSameVersion(std::string_view peer, uint32_t protocol_version,
                              std::string_view build) {
  if (protocol_version == kProtocolVersion && build == BuildId()) return absl::OkStatus();
  return FailedPrecondition(
      "version mismatch: {} runs protocol {}, build {}; this side runs protocol {}, build {}", peer,
      protocol_version, engine::Named(build), kProtocolVersion, BuildId());
}

}  // namespace baton::wire
