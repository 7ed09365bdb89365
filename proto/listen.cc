#include "proto/listen.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace baton::wire {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// errno of binding, or 0. With SO_REUSEADDR, as servers bind, so that closed connections of a
// former process don't count.
int TryBind(const addrinfo& address) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error =
      bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, 1) == 0 ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

absl::Status CheckListenPolicy(const Address& address, const Security& security, bool insecure) {
  if (address.IsLoopback() || security.tls() || insecure) return absl::OkStatus();
  return PermissionDenied(
      "listening on {}: it is reachable from other machines; give TLS certificates, or say "
      "insecure",
      address.ToString());
}

absl::Status CheckPortFree(const Address& address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0)
    return InvalidArgument("listening on {}: {}", address.ToString(), gai_strerror(failed));
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);

  // A name may stand for several addresses, of which this machine need not have all (no IPv6).
  int last_error = 0;
  bool possible = false;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const int error = TryBind(*entry);
    if (error == EADDRINUSE)
      return AlreadyExists("listening on {}: address in use: port {}", address.ToString(),
                           address.port);
    possible |= error == 0;
    if (error != 0) last_error = error;
  }
  if (possible) return absl::OkStatus();
  return Unknown("listening on {}: {}", address.ToString(), std::strerror(last_error));
}

}  // namespace baton::wire
