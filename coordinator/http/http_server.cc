#include "coordinator/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_set>

namespace baton::coordinator {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

std::chrono::milliseconds ToChrono(absl::Duration duration) {
  return std::chrono::milliseconds(absl::ToInt64Milliseconds(duration));
}

std::string_view ReasonPhrase(http::status status) {
  const auto reason = http::obsolete_reason(status);
  return {reason.data(), reason.size()};
}

std::string DrawRequestId() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return fmt::format("req-{:016x}", generator());
}

bool IsSaneId(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         id.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") == id.npos;
}

HttpRequest ToRequest(http::request<http::string_body>&& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != target.npos) request.query = target.substr(question + 1);
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  const std::string_view given = request.Header("x-request-id");
  request.id = IsSaneId(given) ? std::string(given) : DrawRequestId();
  return request;
}

constexpr size_t kRefusedAtOnce = 64;  // connections over the limit that are told so
constexpr auto kLinger = std::chrono::seconds(2);
constexpr auto kAcceptAgain = std::chrono::milliseconds(100);  // where the system gives no more

class Server;

// One connection. Its state changes on the server's thread only; what responders ask for is posted
// there.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Server* server) : stream_(std::move(socket)), server_(server) {}
  void Start() { ReadRequest(); }
  // Ends the connection with an error.
  void Refuse(http::status status, std::string_view what);

  // For the exchange with this number; an older one is over and ignored.
  void Respond(uint64_t exchange, std::string bytes, bool last, bool close_after);
  void OnGone(uint64_t exchange, std::function<void()> callback);
  void Close();
  bool busy() const { return busy_; }

 private:
  void ReadRequest();
  void LimitReading();
  void HandleRequest();
  void WatchForClose();
  void WriteNext();
  void Linger();

  beast::tcp_stream stream_;
  Server* server_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::deque<std::string> queue_;  // bytes to write; the front one is being written
  std::vector<std::function<void()>> on_gone_;
  std::shared_ptr<std::atomic<size_t>> queued_bytes_;  // of the exchange, shared with its responder
  uint64_t exchange_ = 0;
  bool busy_ = false;      // a request is being answered
  bool finished_ = false;  // its last byte is queued
  bool keep_alive_ = true;
  asio::steady_timer slow_{stream_.get_executor()};  // a request that is being read
  bool is_slow_ = false;
  bool refused_ = false;  // with a part of its request unread
  bool watching_ = false;
  bool gone_ = false;
};

// What one request's handler holds. Counts what is queued, so that a slow reader costs bounded
// memory.
class Responder : public HttpResponder, public std::enable_shared_from_this<Responder> {
 public:
  Responder(asio::any_io_executor executor, std::weak_ptr<Connection> connection, uint64_t exchange,
            bool keep_alive, bool head_only, std::string id, size_t max_queued,
            std::shared_ptr<std::atomic<size_t>> queued)
      : executor_(std::move(executor)),
        connection_(std::move(connection)),
        exchange_(exchange),
        keep_alive_(keep_alive),
        head_only_(head_only),
        id_(std::move(id)),
        max_queued_(max_queued),
        queued_(std::move(queued)) {}
  ~Responder() override {  // a handler that forgets to answer must not leave its client waiting
    if (!done_) Send(500, "text/plain", "the request was not answered\n", {});
  }

  void Send(int status, std::string_view content_type, std::string body,
            HttpHeaders headers) override {
    if (done_.exchange(true)) return;
    std::string head = Head(status, content_type, headers);
    head += fmt::format("Content-Length: {}\r\n\r\n", body.size());
    if (!head_only_) head += body;
    Post(std::move(head), /*last=*/true);
  }

  void StartStream(std::string_view content_type, HttpHeaders headers) override {
    headers.emplace_back("Cache-Control", "no-cache");
    Post(Head(200, content_type, headers) + "Transfer-Encoding: chunked\r\n\r\n", /*last=*/false);
  }

  bool Write(std::string chunk) override {
    if (done_ || gone_->load()) return false;
    if (chunk.empty()) return true;
    if (queued_->load() > max_queued_) {
      asio::post(executor_, [connection = connection_] {
        if (auto c = connection.lock()) c->Close();
      });
      return false;
    }
    Post(fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk), /*last=*/false);
    return true;
  }

  void End() override {
    if (done_.exchange(true)) return;
    Post("0\r\n\r\n", /*last=*/true);
  }

  void OnGone(std::function<void()> callback) override {
    asio::post(executor_, [connection = connection_, exchange = exchange_, gone = gone_,
                           callback = std::move(callback)] {
      auto tell = [gone, callback] {
        gone->store(true);
        callback();
      };
      if (auto c = connection.lock()) {
        c->OnGone(exchange, tell);
      } else {
        tell();
      }
    });
  }

 private:
  std::string Head(int status, std::string_view content_type, const HttpHeaders& headers) const {
    const std::string_view reason =
        ReasonPhrase(http::int_to_status(static_cast<unsigned>(status)));
    std::string head =
        fmt::format("HTTP/1.1 {} {}\r\nServer: baton\r\nX-Request-Id: {}\r\n", status, reason, id_);
    if (!content_type.empty()) head += fmt::format("Content-Type: {}\r\n", content_type);
    for (const auto& [name, value] : headers) head += fmt::format("{}: {}\r\n", name, value);
    head += keep_alive_ ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
    return head;
  }

  void Post(std::string bytes, bool last) {
    queued_->fetch_add(bytes.size());
    asio::post(executor_, [connection = connection_, exchange = exchange_, bytes = std::move(bytes),
                           last, close_after = last && !keep_alive_]() mutable {
      if (auto c = connection.lock()) c->Respond(exchange, std::move(bytes), last, close_after);
    });
  }

  const asio::any_io_executor executor_;
  const std::weak_ptr<Connection> connection_;
  const uint64_t exchange_;
  const bool keep_alive_;
  const bool head_only_;
  const std::string id_;
  const size_t max_queued_;
  const std::shared_ptr<std::atomic<size_t>> queued_;
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> done_ = false;
};

class Server : public HttpServer {
 public:
  Server(const Options& options, Handler handler)
      : options_(options), handler_(std::move(handler)), acceptor_(context_) {}
  ~Server() override { Stop(absl::ZeroDuration()); }

  absl::Status Listen() {
    error_code error;
    const auto found = tcp::resolver(context_).resolve(options_.host, "", error);
    if (error || found.empty())
      return InvalidArgument("http listen address: {}: {}", options_.host, error.message());
    std::vector<tcp::endpoint> endpoints(found.begin(), found.end());
    // Clients that know no IPv6 find the first of them, others go on to it.
    std::stable_partition(endpoints.begin(), endpoints.end(),
                          [](const tcp::endpoint& each) { return each.address().is_v4(); });
    for (tcp::endpoint& endpoint : endpoints) {
      endpoint.port(options_.port);
      error = Bind(endpoint);
      if (!error) break;
    }
    if (error == boost::system::errc::address_in_use) {
      return AlreadyExists("http: address in use: {}:{}: another process listens there",
                           options_.host, options_.port);
    }
    if (error)
      return Unknown("http: cannot listen on {}:{}: {}", options_.host, options_.port,
                     error.message());
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { context_.run(); });
    return absl::OkStatus();
  }

  uint16_t port() const override { return port_; }

  void Stop(absl::Duration grace) override {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] {
      error_code ignored;
      stopping_ = true;
      acceptor_.close(ignored);
      CloseIdle();
    });
    std::unique_lock lock(mutex_);
    drained_.wait_for(lock, ToChrono(grace), [this] { return num_connections_ == 0; });
    lock.unlock();
    context_.stop();
    thread_.join();
    connections_.clear();
  }

  void Remove(const std::shared_ptr<Connection>& connection) {
    connections_.erase(connection);
    std::lock_guard lock(mutex_);
    num_connections_ = connections_.size();
    drained_.notify_all();
  }

  const Options& options() const { return options_; }
  bool stopping() const { return stopping_; }
  void Handle(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    handler_(request, responder);
  }

 private:
  error_code Bind(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.close(error);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    return error;
  }

  void CloseIdle() {
    std::vector<std::shared_ptr<Connection>> idle;
    for (const auto& c : connections_) {
      if (!c->busy()) idle.push_back(c);
    }
    for (const auto& c : idle) c->Close();
  }

  void Accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return AcceptLater();
      const size_t limit = options_.max_connections;
      if (connections_.size() < limit) {
        socket.set_option(tcp::no_delay(true), error);
        Add(std::move(socket))->Start();
      } else if (connections_.size() < limit + kRefusedAtOnce) {
        Add(std::move(socket))
            ->Refuse(
                http::status::service_unavailable,
                fmt::format("{} connections are open, which is the limit; try again later", limit));
      }  // where even those are too many the socket closes here
      Accept();
    });
  }

  std::shared_ptr<Connection> Add(tcp::socket socket) {
    auto connection = std::make_shared<Connection>(std::move(socket), this);
    connections_.insert(connection);
    const std::lock_guard lock(mutex_);
    num_connections_ = connections_.size();
    return connection;
  }

  // As when the process has as many files open as it may.
  void AcceptLater() {
    accept_again_.expires_after(kAcceptAgain);
    accept_again_.async_wait([this](error_code error) {
      if (!error && !stopping_) Accept();
    });
  }

  const Options options_;
  const Handler handler_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer accept_again_{context_};
  uint16_t port_ = 0;
  bool stopping_ = false;
  std::unordered_set<std::shared_ptr<Connection>> connections_;  // server's thread
  std::mutex mutex_;
  std::condition_variable drained_;
  size_t num_connections_ = 0;  // guarded by mutex_
  std::thread thread_;
};

void Connection::ReadRequest() {
  if (server_->stopping()) return Close();
  busy_ = false;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(server_->options().max_header_bytes));
  parser_->body_limit(server_->options().max_body_bytes);
  stream_.expires_after(ToChrono(server_->options().idle_timeout));
  http::async_read_header(
      stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
        if (error == http::error::header_limit)
          return self->Refuse(http::status::request_header_fields_too_large, "headers");
        if (error == http::error::body_limit)
          return self->Refuse(http::status::payload_too_large, "body");
        if (error == http::error::end_of_stream || error == beast::error::timeout ||
            error == asio::error::eof || error == asio::error::connection_reset ||
            error == asio::error::operation_aborted) {
          return self->Close();
        }
        if (error) return self->Refuse(http::status::bad_request, error.message());
        if (self->parser_->get()[http::field::expect] == "100-continue") {
          static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
          error_code ignored;
          self->stream_.socket().write_some(asio::buffer(kContinue.data(), kContinue.size()),
                                            ignored);
        }
        self->busy_ = true;
        self->LimitReading();
        http::async_read(self->stream_, self->buffer_, *self->parser_,
                         [self](error_code read_error, size_t) {
                           self->slow_.cancel();
                           if (read_error == http::error::body_limit)
                             return self->Refuse(http::status::payload_too_large, "body");
                           if (self->is_slow_)
                             return self->Refuse(http::status::request_timeout, "body");
                           if (read_error) return self->Close();
                           self->HandleRequest();
                         });
      });
}

// The stream's own limit of time would close the connection without a word.
void Connection::LimitReading() {
  stream_.expires_never();
  is_slow_ = false;
  slow_.expires_after(ToChrono(server_->options().read_timeout));
  slow_.async_wait([weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (error || self == nullptr) return;
    self->is_slow_ = true;
    self->stream_.cancel();
  });
}

void Connection::HandleRequest() {
  stream_.expires_never();
  auto message = parser_->release();
  keep_alive_ = message.keep_alive();
  finished_ = false;
  const bool head_only = message.method() == http::verb::head;
  HttpRequest request = ToRequest(std::move(message));
  error_code gone;
  request.peer = stream_.socket().remote_endpoint(gone).address().to_string();
  auto queued = std::make_shared<std::atomic<size_t>>(0);
  queued_bytes_ = queued;
  auto responder = std::make_shared<Responder>(stream_.get_executor(), weak_from_this(),
                                               ++exchange_, keep_alive_, head_only, request.id,
                                               server_->options().max_queued_bytes, queued);
  WatchForClose();
  server_->Handle(request, responder);
}

// While a request is answered nothing is read, so a client that goes away is seen by waiting for
// its end of the socket.
void Connection::WatchForClose() {
  if (watching_ || gone_) return;
  watching_ = true;
  stream_.socket().async_wait(tcp::socket::wait_read, [weak = weak_from_this()](error_code error) {
    auto self = weak.lock();
    if (self == nullptr) return;
    self->watching_ = false;
    if (error || !self->busy_) return;
    char byte;
    error_code peek_error;
    self->stream_.socket().non_blocking(true, peek_error);
    const size_t got = self->stream_.socket().receive(asio::buffer(&byte, 1),
                                                      asio::socket_base::message_peek, peek_error);
    if (peek_error == asio::error::would_block) return self->WatchForClose();
    if (peek_error || got == 0) return self->Close();
    // The next request came early: it stays in the socket until this one is answered.
  });
}

void Connection::Respond(uint64_t exchange, std::string bytes, bool last, bool close_after) {
  if (exchange != exchange_ || gone_) return;
  queue_.push_back(std::move(bytes));
  if (last) {
    finished_ = true;
    keep_alive_ = keep_alive_ && !close_after;
  }
  if (queue_.size() == 1) WriteNext();
}

void Connection::WriteNext() {
  asio::async_write(stream_, asio::buffer(queue_.front()),
                    [self = shared_from_this()](error_code error, size_t) {
                      if (error || self->gone_) return self->Close();
                      if (self->queued_bytes_ != nullptr)
                        self->queued_bytes_->fetch_sub(self->queue_.front().size());
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) return self->WriteNext();
                      if (!self->finished_) return;
                      self->on_gone_.clear();
                      self->finished_ = false;
                      if (self->keep_alive_) return self->ReadRequest();
                      error_code ignored;
                      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
                      if (self->refused_) return self->Linger();
                      self->Close();
                    });
}

// Closing with something unread makes the system drop what the client has not read either: the
// words why it is refused.
void Connection::Linger() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(16 << 10),
                          [self = shared_from_this()](error_code error, size_t) {
                            if (error || self->gone_) return self->Close();
                            self->Linger();
                          });
}

void Connection::OnGone(uint64_t exchange, std::function<void()> callback) {
  if (gone_) return callback();
  if (exchange == exchange_ && busy_) on_gone_.push_back(std::move(callback));
}

void Connection::Close() {
  if (gone_) return;
  gone_ = true;
  error_code ignored;
  stream_.socket().close(ignored);
  for (auto& callback : std::exchange(on_gone_, {})) callback();
  server_->Remove(shared_from_this());
}

void Connection::Refuse(http::status status, std::string_view what) {
  keep_alive_ = false;
  finished_ = true;
  refused_ = true;
  const bool may_come_again = status == http::status::service_unavailable;
  const std::string body =
      fmt::format(R"({{"error":{{"message":"{}: {}","type":"{}","param":null,"code":null}}}})",
                  ReasonPhrase(status), what,
                  may_come_again ? "service_unavailable_error" : "invalid_request_error");
  queue_.push_back(
      fmt::format("HTTP/1.1 {} {}\r\nServer: baton\r\nContent-Type: "
                  "application/json\r\n{}Connection: close\r\nContent-Length: {}\r\n\r\n{}",
                  static_cast<int>(status), ReasonPhrase(status),
                  may_come_again ? "Retry-After: 1\r\n" : "", body.size(), body));
  stream_.expires_after(kLinger);
  if (queue_.size() == 1) WriteNext();
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return "";
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options,
                                                              Handler handler) {
  auto server = std::make_unique<Server>(options, std::move(handler));
  RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace baton::coordinator
