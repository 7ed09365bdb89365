// A small asynchronous HTTP/1.1 server (Boost.Beast): whole answers and server-sent streams,
// keep-alive, limits.
//
// Owner: HttpGateway. Handlers run on the server's own thread and must not block; a responder may
// be used from any thread and may outlive its connection, whose end it then reports.
#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace baton::coordinator {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // "/v1/models", without the query
  std::string query;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string id;    // the client's X-Request-Id where it is sane, else drawn
  std::string peer;  // the client's address, without the port

  std::string_view Header(std::string_view lower_case_name) const;  // "": absent
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The answer to one request: either Send, or StartStream, Write …, End.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;
  virtual void Send(int status, std::string_view content_type, std::string body,
                    HttpHeaders headers = {}) = 0;
  virtual void StartStream(std::string_view content_type, HttpHeaders headers = {}) = 0;
  // False: the client is gone, or reads too slowly for what is queued; the stream is over.
  virtual bool Write(std::string chunk) = 0;
  virtual void End() = 0;
  // Called once when the client goes before End; at once if it has gone already.
  virtual void OnGone(std::function<void()> callback) = 0;
};

class HttpServer {
 public:
  using Handler = std::function<void(const HttpRequest&, std::shared_ptr<HttpResponder>)>;

  struct Options {
    std::string host = "127.0.0.1";  // a name or an address of this machine
    uint16_t port = 0;
    size_t max_header_bytes = 16 << 10;
    size_t max_body_bytes = 8 << 20;
    size_t max_queued_bytes = 1 << 20;                // of a stream whose client does not read
    size_t max_connections = 4096;                    // more are told so and closed
    absl::Duration read_timeout = absl::Seconds(30);  // for a request, from its first byte
    absl::Duration idle_timeout = absl::Seconds(120);
  };
  // AlreadyExists names a port that is in use.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const Options& options, Handler handler);
  virtual ~HttpServer() = default;

  virtual uint16_t port() const = 0;
  // Takes no new requests and waits until those that run are answered, at most so long; then closes
  // all.
  virtual void Stop(absl::Duration grace) = 0;
};

}  // namespace baton::coordinator
