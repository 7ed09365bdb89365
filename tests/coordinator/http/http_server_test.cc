// The HTTP server over real sockets on loopback.
#include "coordinator/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <functional>
#include <future>
#include <thread>

namespace baton::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A blocking client on a raw socket, so that the bytes are what the test says.
class RawClient {
 public:
  explicit RawClient(uint16_t port, const std::function<void()>& before_connecting = {})
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (before_connecting) before_connecting();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  ~RawClient() { Close(); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  void Send(std::string_view text) {
    ASSERT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  }
  // Reads until `end` has come or the connection closes.
  std::string ReadUntil(std::string_view end) {
    std::string got;
    char buffer[4096];
    while (got.find(end) == got.npos) {
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      got.append(buffer, n);
    }
    return got;
  }

 private:
  int fd_;
};

std::unique_ptr<HttpServer> StartServer(HttpServer::Handler handler,
                                        HttpServer::Options options = {}) {
  options.host = "127.0.0.1";
  auto server = HttpServer::Start(options, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

void Echo(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
  responder->Send(200, "text/plain",
                  request.method + " " + request.path + "?" + request.query + " " + request.body);
}

TEST(HttpServer, AnswersSeveralRequestsOfOneConnection) {
  auto server = StartServer(Echo);
  RawClient client(server->port());
  for (int i = 0; i < 3; ++i) {
    client.Send(
        "POST /a?b=1 HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\nContent-Length: 2\r\n\r\nhi");
    const std::string answer = client.ReadUntil("hi");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
    EXPECT_THAT(answer, HasSubstr("X-Request-Id: mine\r\n"));
    EXPECT_THAT(answer, HasSubstr("POST /a?b=1 hi"));
  }
}

TEST(HttpServer, StreamsChunksInOrder) {
  std::thread writer;
  auto server = StartServer([&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    writer = std::thread([responder] {
      responder->StartStream("text/event-stream");
      for (int i = 0; i < 50; ++i)
        EXPECT_TRUE(responder->Write("data: " + std::to_string(i) + "\n\n"));
      responder->End();
    });
  });
  RawClient client(server->port());
  client.Send("GET /s HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string answer = client.ReadUntil("\r\n0\r\n\r\n");
  writer.join();
  size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    at = answer.find("data: " + std::to_string(i) + "\n\n", at);
    ASSERT_NE(at, answer.npos) << i;
  }
}

TEST(HttpServer, TellsWhenTheClientGoes) {
  std::promise<void> gone;
  std::shared_ptr<HttpResponder> kept;
  auto server = StartServer([&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    responder->OnGone([&] { gone.set_value(); });
    responder->StartStream("text/event-stream");
    kept = responder;
  });
  RawClient client(server->port());
  client.Send("GET /s HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ReadUntil("\r\n\r\n");
  client.Close();
  ASSERT_EQ(gone.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_FALSE(kept->Write("late"));
}

TEST(HttpServer, DropsAClientThatDoesNotRead) {
  std::atomic<bool> refused = false;
  std::atomic<size_t> taken = 0;
  std::thread writer;
  auto server = StartServer(
      [&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
        writer = std::thread([&, responder] {
          responder->StartStream("text/event-stream");
          const std::string chunk(64 << 10, 'x');
          for (int i = 0; i < 4096 && !refused; ++i) {
            if (responder->Write(chunk)) {
              taken += chunk.size();
            } else {
              refused = true;
            }
          }
        });
      },
      {.max_queued_bytes = 256 << 10});
  RawClient client(server->port());
  client.Send("GET /s HTTP/1.1\r\nHost: x\r\n\r\n");
  while (!writer.joinable()) std::this_thread::yield();
  writer.join();
  EXPECT_TRUE(refused);
  EXPECT_LT(taken, size_t{64} << 20);
}

struct BadRequest {
  const char* name;
  std::string text;
  const char* answer;
};

class HttpServerRefuses : public ::testing::TestWithParam<BadRequest> {};

TEST_P(HttpServerRefuses, WithAClearStatus) {
  auto server = StartServer(Echo, {.max_header_bytes = 1024, .max_body_bytes = 1024});
  RawClient client(server->port());
  client.Send(GetParam().text);
  EXPECT_THAT(client.ReadUntil("}}"), StartsWith(GetParam().answer));
  RawClient next(server->port());
  next.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(next.ReadUntil("GET"), StartsWith("HTTP/1.1 200"));
}

INSTANTIATE_TEST_SUITE_P(
    All, HttpServerRefuses,
    ::testing::Values(BadRequest{"NotHttp", "\x16\x03\x01 hello\r\n\r\n", "HTTP/1.1 400"},
                      BadRequest{"LongHeader",
                                 "GET / HTTP/1.1\r\nA: " + std::string(4000, 'a') + "\r\n\r\n",
                                 "HTTP/1.1 431"},
                      BadRequest{"LongBody", "POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
                                 "HTTP/1.1 413"},
                      BadRequest{"NegativeLength", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                                 "HTTP/1.1 400"}),
    [](const auto& test) { return test.param.name; });

// The whole body is on its way before the answer is read, as most clients do.
TEST(HttpServer, AClientThatSendsTooMuchHearsWhy) {
  auto server = StartServer(Echo, {.max_body_bytes = 1024});
  for (int i = 0; i < 10; ++i) {
    RawClient client(server->port());
    client.Send("POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
    client.Send(std::string(1000000, 'x'));
    EXPECT_THAT(client.ReadUntil("}}"), StartsWith("HTTP/1.1 413"));
  }
}

TEST(HttpServer, ConnectionsOverTheLimitAreToldSo) {
  auto server = StartServer(Echo, {.max_connections = 2});
  const auto ask = [](RawClient& client) {
    client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    return client.ReadUntil("\r\n\r\n");
  };
  RawClient first(server->port());
  {
    RawClient second(server->port());
    EXPECT_THAT(ask(first), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(ask(second), StartsWith("HTTP/1.1 200"));
    RawClient third(server->port());
    const std::string answer = third.ReadUntil("}}");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("Retry-After: 1"));
    EXPECT_THAT(answer, HasSubstr("2 connections are open"));
    EXPECT_THAT(answer, HasSubstr("service_unavailable_error"));
    EXPECT_THAT(ask(first), StartsWith("HTTP/1.1 200"));
  }
  std::string answer;
  for (int i = 0; i < 500 && !answer.starts_with("HTTP/1.1 200"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    RawClient again(server->port());
    answer = ask(again);
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, AClientThatWritesTooSlowlyIsEnded) {
  auto server = StartServer(Echo, {.read_timeout = absl::Milliseconds(300),
                                   .idle_timeout = absl::Milliseconds(300)});
  RawClient body(server->port()), head(server->port()), silent(server->port());
  body.Send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
  head.Send("GET / HT");
  EXPECT_THAT(body.ReadUntil("}}"), StartsWith("HTTP/1.1 408"));
  EXPECT_EQ(head.ReadUntil("}}"), "");
  EXPECT_EQ(silent.ReadUntil("}}"), "");
}

// Clients wait while the process may open no more files, and are served when it may again.
TEST(HttpServer, ALimitOfTheSystemIsWaitedFor) {
  auto server = StartServer(Echo);
  RawClient client(server->port());
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{0, usual.rlim_max};
  // The one above may be accepted already.
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("GET"), StartsWith("HTTP/1.1 200"));
  RawClient waits(server->port(), [&] { setrlimit(RLIMIT_NOFILE, &none); });
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 4) << "it tries all the time";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  waits.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(waits.ReadUntil("GET"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, ListensOnANameOfThisMachine) {
  const auto server = HttpServer::Start({.host = "localhost"}, Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  RawClient client((*server)->port());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("GET"), StartsWith("HTTP/1.1 200"));
  EXPECT_FALSE(HttpServer::Start({.host = "192.0.2.1"}, Echo).ok());  // of documentation
}

TEST(HttpServer, PortInUseIsAnError) {
  auto server = StartServer(Echo);
  const auto second = HttpServer::Start({.host = "127.0.0.1", .port = server->port()}, Echo);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(Message(second.status())), HasSubstr(std::to_string(server->port())));
}

TEST(HttpServer, AForgottenAnswerIsAnError) {
  auto server = StartServer([](const HttpRequest&, std::shared_ptr<HttpResponder>) {});
  RawClient client(server->port());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("answered"), StartsWith("HTTP/1.1 500"));
}

TEST(HttpServer, StopWaitsForARunningAnswer) {
  std::thread writer;
  auto server = StartServer([&](const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    writer = std::thread([responder] {
      responder->StartStream("text/event-stream");
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      responder->Write("data: last\n\n");
      responder->End();
    });
  });
  RawClient client(server->port());
  client.Send("GET /s HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ReadUntil("\r\n\r\n");
  server->Stop(absl::Seconds(5));
  EXPECT_THAT(client.ReadUntil("0\r\n\r\n"), HasSubstr("data: last"));
  writer.join();
}

}  // namespace
}  // namespace baton::coordinator
