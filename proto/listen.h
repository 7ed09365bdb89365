// Where a process may listen, and the sockets with which it does.
#pragma once

#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "proto/address.h"
#include "proto/security.h"

namespace baton::wire {

// Owns a descriptor; -1: none.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();
  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }  // to another owner

 private:
  int fd_;
};

// PermissionDenied for an address beyond loopback without TLS, unless the operator said `insecure`.
absl::Status CheckListenPolicy(const Address& address, const Security& security, bool insecure);

// Listens at all addresses of this machine that `address` stands for; port 0 becomes a free one.
// AlreadyExists where another process holds the port, InvalidArgument or Unknown where the host is
// not one of this machine or the system refuses.
absl::StatusOr<std::vector<Socket>> Listen(Address* address);

// Why Listen would fail; another process may be faster than what is done about it.
absl::Status CheckPortFree(const Address& address);

}  // namespace baton::wire
