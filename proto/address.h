// HOST:PORT as people write it, for listening and for connecting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace baton::wire {

struct Address {
  std::string host;  // a name, an IPv4 address or an IPv6 address without brackets
  uint16_t port = 0;

  std::string ToString() const;  // an IPv6 host in brackets again
  // Whether only this machine reaches it: localhost, 127.0.0.0/8, ::1.
  bool IsLoopback() const;
  bool operator==(const Address&) const = default;
};

// InvalidArgument says which part of `text` is wrong. An IPv6 host needs brackets, because a port
// must follow.
absl::StatusOr<Address> ParseAddress(std::string_view text);

}  // namespace baton::wire
