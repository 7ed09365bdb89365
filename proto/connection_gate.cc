#include "proto/connection_gate.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/base/steady_time.h"

namespace baton::wire {
namespace {

constexpr int kTryAgainMs = 100;  // where the system has no room
constexpr absl::Duration kForgetEvery =
    absl::Milliseconds(100);  // for closed ones, when it is full
constexpr absl::Duration kSayEvery = absl::Minutes(1);

std::string HostOf(const sockaddr_storage& peer, socklen_t size) {
  char host[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&peer), size, host, sizeof(host), nullptr, 0,
              NI_NUMERICHOST);
  return host;
}

// 0: none.
ino_t InodeOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

ConnectionGate::ConnectionGate(std::vector<Socket> listening, size_t max_connections,
                               std::function<void(int fd)> take)
    : listening_(std::move(listening)),
      max_connections_(max_connections),
      take_(std::move(take)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      thread_([this] { Run(); }) {}

ConnectionGate::~ConnectionGate() {
  eventfd_write(stop_.fd(), 1);
  thread_.join();
}

void ConnectionGate::Run() {
  std::vector<pollfd> watched = {{.fd = stop_.fd(), .events = POLLIN, .revents = 0}};
  for (const Socket& socket : listening_)
    watched.push_back({.fd = socket.fd(), .events = POLLIN, .revents = 0});
  bool room = true;
  while (true) {
    // Without room the listening sockets would only say so again and again.
    poll(watched.data(), room ? watched.size() : 1, room ? -1 : kTryAgainMs);
    if (watched[0].revents != 0) return;
    room = true;
    for (const Socket& socket : listening_) room = AcceptAll(socket.fd()) && room;
  }
}

bool ConnectionGate::AcceptAll(int listening) {
  while (true) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    Socket socket(accept4(listening, reinterpret_cast<sockaddr*>(&peer), &size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.fd() < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;  // that one is gone already
      return errno == EAGAIN;
    }
    std::string host = HostOf(peer, size);
    if (!HasRoomFor(host)) {
      SayRefused(host);
    } else {
      LetIn(std::move(socket), std::move(host));
    }
  }
}

void ConnectionGate::LetIn(Socket socket, std::string host) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const int fd = socket.Release();
  connections_.push_back({.fd = fd, .inode = InodeOf(fd), .host = std::move(host)});
  take_(fd);
}

bool ConnectionGate::HasRoomFor(const std::string& host) {
  const auto fits = [&] {
    const auto of_host = std::ranges::count(connections_, host, &Connection::host);
    return connections_.size() < max_connections_ &&
           2 * static_cast<size_t>(of_host) < std::max<size_t>(2, max_connections_);
  };
  if (fits()) return true;
  if (const absl::Time now = SteadyNow(); now - looked_ >= kForgetEvery) {
    looked_ = now;
    ForgetClosed();
  }
  return fits();
}

void ConnectionGate::ForgetClosed() {
  std::erase_if(connections_, [](const Connection& c) { return InodeOf(c.fd) != c.inode; });
}

void ConnectionGate::SayRefused(const std::string& host) {
  ++refused_;
  const absl::Time now = SteadyNow();
  if (now - said_ < kSayEvery) return;
  spdlog::warn(
      "{} connections to the gRPC port were refused, the last from {}: {} are open, of {}, half of "
      "them for one address",
      std::exchange(refused_, 0), host, connections_.size(), max_connections_);
  said_ = now;
}

}  // namespace baton::wire
