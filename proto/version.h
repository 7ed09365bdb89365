// What this program is, for handshakes and for people.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/status.h"

namespace baton::wire {

// Changes whenever messages change their meaning.
inline constexpr uint32_t kProtocolVersion = 2;

// Version and commit: "0.1.0+1f4e472". Processes of one cluster must agree, because the bits of an
// answer are the build's.
std::string_view BuildId();

// FailedPrecondition with both sides' numbers, where `peer` (a name for people) runs another
// protocol or build.
absl::Status CheckSameVersion(std::string_view peer, uint32_t protocol_version,
                              std::string_view build);

}  // namespace baton::wire
