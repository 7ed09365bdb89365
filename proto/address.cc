#include "proto/address.h"

#include <arpa/inet.h>

#include <charconv>

#include "engine/base/quote.h"

namespace baton::wire {
namespace {

absl::StatusOr<uint16_t> ParsePort(std::string_view text, std::string_view port) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (port.empty() || error != std::errc() || end != port.data() + port.size() || value > 65535) {
    return InvalidArgument("address {}: port: got \"{}\", expected a number from 0 to 65535",
                           engine::Named(text), engine::Named(port));
  }
  return static_cast<uint16_t>(value);
}

bool IsIpv6(std::string_view host) {
  // A scope ("%eth0") is part of the address for connecting but not for inet_pton.
  const std::string digits(host.substr(0, host.find('%')));
  in6_addr address;
  return inet_pton(AF_INET6, digits.c_str(), &address) == 1;
}

bool IsHostName(std::string_view host) {
  if (host.empty() || host.size() > 253) return false;
  for (const char c : host) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '-' && c != '.' && c != '_') return false;
  }
  return true;
}

}  // namespace

std::string Address::ToString() const {
  return host.find(':') != std::string::npos ? fmt::format("[{}]:{}", host, port)
                                             : fmt::format("{}:{}", host, port);
}

bool Address::IsLoopback() const {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<Address> ParseAddress(std::string_view text) {
  Address address;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || text.substr(end + 1, 1) != ":") {
      return InvalidArgument("address {}: expected [IPV6]:PORT", engine::Named(text));
    }
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 2);
    if (!IsIpv6(address.host)) {
      return InvalidArgument(
          "address {}: host: got \"{}\", expected an IPv6 address in the brackets",
          engine::Named(text), engine::Named(address.host));
    }
  } else {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) {
      return InvalidArgument("address {}: no port, expected HOST:PORT", engine::Named(text));
    }
    if (text.find(':', colon + 1) != std::string_view::npos) {
      return InvalidArgument(
          "address {}: more than one colon; an IPv6 address stands in brackets before the port: "
          "[::1]:7071",
          engine::Named(text));
    }
    address.host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (!IsHostName(address.host)) {
      return InvalidArgument("address {}: host: got \"{}\", expected a name or an IP address",
                             engine::Named(text), engine::Named(address.host));
    }
  }
  ASSIGN_OR_RETURN(address.port, ParsePort(text, port));
  return address;
}

}  // namespace baton::wire
