#include "proto/connection_gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "tests/support/status_matchers.h"

namespace baton::wire {
namespace {

using testing::IsOk;

constexpr auto kPatience = std::chrono::seconds(10);

class ConnectionGateTest : public ::testing::Test {
 protected:
  void Open(size_t max_connections) {
    auto listening = Listen(&address_);
    ASSERT_THAT(listening, IsOk());
    gate_.emplace(*std::move(listening), max_connections, [this](int fd) {
      const std::lock_guard lock(mutex_);
      taken_.emplace_back(fd);
      arrived_.notify_all();
    });
  }

  Socket ConnectFrom(const char* host) const {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {inet_addr(host)}, .sin_zero = {}};
    EXPECT_EQ(bind(socket.fd(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    at.sin_addr.s_addr = inet_addr("127.0.0.1");
    at.sin_port = htons(address_.port);
    EXPECT_EQ(connect(socket.fd(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    return socket;
  }

  // The next connection that was let in.
  std::optional<Socket> Next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kPatience, [this] { return !taken_.empty(); }))
      return std::nullopt;
    std::optional<Socket> socket(std::move(taken_.front()));
    taken_.pop_front();
    return socket;
  }

  static bool IsClosed(const Socket& socket) {
    pollfd watched{.fd = socket.fd(), .events = POLLIN, .revents = 0};
    char byte;
    return poll(&watched, 1, 10'000) == 1 && recv(socket.fd(), &byte, 1, 0) <= 0;
  }

  Address address_{"127.0.0.1", 0};
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Socket> taken_;  // guarded by mutex_
  std::optional<ConnectionGate> gate_;
};

TEST_F(ConnectionGateTest, ClosesWhatIsOverTheLimitUntilThereIsRoom) {
  Open(2);
  const Socket first = ConnectFrom("127.0.0.1"), second = ConnectFrom("127.0.0.2");
  std::optional<Socket> taken = Next(), other = Next();
  ASSERT_TRUE(taken && other);
  EXPECT_TRUE(IsClosed(ConnectFrom("127.0.0.3")));
  taken.reset();
  while (true) {  // closed ones are looked for now and then
    const Socket third = ConnectFrom("127.0.0.3");
    pollfd watched{.fd = third.fd(), .events = POLLIN, .revents = 0};
    if (poll(&watched, 1, 300) == 0) break;
  }
  EXPECT_TRUE(Next());
}

TEST_F(ConnectionGateTest, OneAddressGetsHalfOfTheRoom) {
  Open(8);
  std::vector<Socket> held, taken;
  for (int i = 0; i < 4; ++i) {
    held.push_back(ConnectFrom("127.0.0.2"));
    taken.push_back(*Next());
  }
  EXPECT_TRUE(IsClosed(ConnectFrom("127.0.0.2")));
  held.push_back(ConnectFrom("127.0.0.1"));
  EXPECT_TRUE(Next());
}

TEST_F(ConnectionGateTest, WaitsWhereTheSystemHasNoDescriptors) {
  Open(8);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const Socket waits = ConnectFrom("127.0.0.1");
  std::optional<Socket> before = Next();
  ASSERT_TRUE(before);
  Socket client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit none = usual;
  none.rlim_cur = static_cast<rlim_t>(client.fd()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const sockaddr_in at{.sin_family = AF_INET,
                       .sin_port = htons(address_.port),
                       .sin_addr = {inet_addr("127.0.0.1")},
                       .sin_zero = {}};
  const int connected = connect(client.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof(at));
  pollfd watched{.fd = client.fd(), .events = POLLIN, .revents = 0};
  const int ended = poll(&watched, 1, 300);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(connected, 0);
  EXPECT_EQ(ended, 0) << "closed instead of left in the queue";
  EXPECT_TRUE(Next());
}

}  // namespace
}  // namespace baton::wire
