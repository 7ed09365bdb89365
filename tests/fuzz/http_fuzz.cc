// Any bytes on a connection to the HTTP server: it answers or closes, and goes on serving.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <string>

#include "coordinator/http/http_server.h"
#include "tests/fuzz/target.h"

namespace baton::fuzz {
namespace {

using namespace coordinator;

constexpr size_t kMaxHeaderBytes = 512, kMaxBodyBytes = 1024;
constexpr uint32_t kClientAddresses = 1 << 16;  // of 127.0.0.0/8

void Answer(const HttpRequest& request, const std::shared_ptr<HttpResponder>& responder) {
  Require(request.body.size() <= kMaxBodyBytes);
  if (request.path.size() % 2 == 0) return responder->Send(200, "text/plain", request.body);
  responder->StartStream("text/event-stream");
  responder->Write("data: x\n\n");
  responder->End();
}

HttpServer& Server() {
  static HttpServer* const server = [] {
    std::signal(SIGPIPE, SIG_IGN);
    auto started = HttpServer::Start(
        {.max_header_bytes = kMaxHeaderBytes, .max_body_bytes = kMaxBodyBytes}, Answer);
    Require(started.ok());
    return started->release();
  }();
  return *server;
}

// -1: interrupted by libFuzzer's alarm.
int TryConnect() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Require(fd >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(Server().port());
  // The side that closes first keeps an address and port for a minute: many addresses, so that a
  // fast run never waits for one.
  static uint32_t calls = 0;
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + calls++ % kClientAddresses);
  const int late = 1;  // the port is chosen by connect
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof(late));
  Require(bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof(from)) == 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Require(errno == EINTR);
    close(fd);
    return -1;
  }
  const linger reset{.l_onoff = 1, .l_linger = 0};  // no ports that wait
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  return fd;
}

int Connect() {
  int fd = -1;
  while (fd < 0) fd = TryConnect();
  return fd;
}

}  // namespace

void FuzzHttp(std::string_view input) {
  const int fd = Connect();
  (void)send(fd, input.data(), input.size(), MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  char buffer[4096];
  while (recv(fd, buffer, sizeof(buffer), 0) > 0) continue;  // a hang is libFuzzer's to find
  close(fd);
}

}  // namespace baton::fuzz
