// The coordinator's HTTP side: OpenAI's API, health, metrics, and the web page.
//
// Owner: whoever runs the coordinator. Thin: bodies become LlmService calls, chunks become
// server-sent events. A client that goes away cancels its requests.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "coordinator/http/http_server.h"
#include "coordinator/llm_service.h"
#include "engine/base/status.h"

namespace baton::coordinator {

class HttpGateway {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    uint16_t port = 0;
    size_t max_body_bytes = 16 << 20;
    size_t max_connections = 2048;
    // Whether the bearer of an Authorization header may call; empty: everyone may. The page and
    // health checks are open.
    std::function<absl::Status(std::string_view authorization)> authorize;
    std::function<std::string()> metrics_text;  // Prometheus' text format; empty: no /metrics
  };
  // `service` must outlive the gateway.
  static absl::StatusOr<std::unique_ptr<HttpGateway>> Start(const Options& options,
                                                            LlmService* service);
  virtual ~HttpGateway() = default;

  virtual uint16_t port() const = 0;
  virtual void Stop(absl::Duration grace) = 0;  // running answers may end in this time
};

}  // namespace baton::coordinator
