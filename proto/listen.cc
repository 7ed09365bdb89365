#include "proto/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace baton::wire {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

uint16_t PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  // At the same place for both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

// errno, or 0. With SO_REUSEADDR, so that closed connections of a former process don't count.
int ListenAt(const addrinfo& address, uint16_t port, std::vector<Socket>* sockets) {
  Socket socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         address.ai_protocol));
  if (socket.fd() < 0) return errno;
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage at{};
  std::memcpy(&at, address.ai_addr, address.ai_addrlen);
  reinterpret_cast<sockaddr_in*>(&at)->sin_port = htons(port);
  if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&at), address.ai_addrlen) != 0 ||
      listen(socket.fd(), SOMAXCONN) != 0) {
    return errno;
  }
  sockets->push_back(std::move(socket));
  return 0;
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

absl::Status CheckListenPolicy(const Address& address, const Security& security, bool insecure) {
  if (address.IsLoopback() || security.tls() || insecure) return absl::OkStatus();
  return PermissionDenied(
      "listening on {}: it is reachable from other machines; give TLS certificates, or say "
      "insecure",
      address.ToString());
}

absl::StatusOr<std::vector<Socket>> Listen(Address* address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(address->host.c_str(), nullptr, &hints, &found); failed != 0) {
    return InvalidArgument("listening on {}: {}", address->ToString(), gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);

  // A name may stand for several addresses, of which this machine need not have all (no IPv6).
  std::vector<Socket> sockets;
  int last_error = 0;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const uint16_t port = sockets.empty() ? address->port : PortOf(sockets[0].fd());
    const int error = ListenAt(*entry, port, &sockets);
    if (error == EADDRINUSE && address->port != 0) {
      return AlreadyExists("listening on {}: address in use: port {}", address->ToString(),
                           address->port);
    }
    if (error != 0) last_error = error;
  }
  if (sockets.empty())
    return Unknown("listening on {}: {}", address->ToString(), std::strerror(last_error));
  address->port = PortOf(sockets[0].fd());
  return sockets;
}

absl::Status CheckPortFree(const Address& address) {
  Address tried = address;
  return Listen(&tried).status();
}

}  // namespace baton::wire
