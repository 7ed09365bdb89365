#include "coordinator/http_gateway.h"

#include <map>
#include <mutex>
#include <utility>

#include "coordinator/cluster_json.h"
#include "coordinator/openai_api.h"
#include "coordinator/web/web_page.h"
#include "engine/base/json.h"

namespace baton::coordinator {
namespace {

constexpr std::string_view kJson = "application/json";

// Browsers on other pages may call the API; credentials are keys in a header, never cookies.
HttpHeaders CorsHeaders() {
  return {{"Access-Control-Allow-Origin", "*"},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"}};
}

void SendJson(HttpResponder& responder, int status, const Json& body) {
  responder.Send(status, kJson, engine::JsonText(body), CorsHeaders());
}

void SendError(HttpResponder& responder, const absl::Status& status) {
  const OpenAiError error = ToOpenAiError(status);
  HttpHeaders headers = CorsHeaders();
  if (error.http_status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.http_status == 429 || error.http_status == 503)
    headers.emplace_back("Retry-After", fmt::format("{}", kComeAgainAfterMs / 1000));
  responder.Send(error.http_status, kJson, engine::JsonText(error.body), std::move(headers));
}

int64_t UnixSeconds() { return absl::ToUnixSeconds(absl::Now()); }

// One call of the API: its choices' chunks arrive on the pipeline's thread, the client may go at
// any time.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(const OpenAiCall& call, LlmService* service, std::string request_id,
           std::shared_ptr<HttpResponder> responder)
      : service_(service),
        responder_(std::move(responder)),
        stream_(call.stream),
        answer_(call, (call.endpoint == OpenAiEndpoint::kChat ? "chatcmpl-" : "cmpl-") + request_id,
                UnixSeconds(), service->model().name, [service](engine::TokenId id) {
                  return service->Detokenize({&id, 1}, /*special=*/true).value_or("");
                }) {}

  // The first error of the request itself, before anything was sent.
  absl::Status Begin(const std::vector<GenerationRequest>& requests) {
    for (size_t i = 0; i < requests.size(); ++i) {
      auto id =
          service_->Generate(requests[i], [self = shared_from_this(), i](GenerationChunk chunk) {
            self->OnChunk(i, std::move(chunk));
          });
      if (!id.ok()) {
        Abandon();
        return id.status();
      }
      const std::lock_guard lock(mutex_);
      ids_.push_back(*id);
    }
    responder_->OnGone([weak = weak_from_this()] {
      if (auto self = weak.lock()) self->Abandon();
    });
    return absl::OkStatus();
  }

 private:
  void OnChunk(size_t choice, GenerationChunk chunk) {
    std::unique_lock lock(mutex_);
    if (over_) return;
    const std::string events = answer_.Add(choice, chunk);
    if (stream_ && !OpenStream(chunk)) return;
    bool alive = true;
    if (stream_ && !events.empty()) alive = responder_->Write(events);
    if (answer_.complete()) return Finish();
    lock.unlock();
    if (!alive) Abandon();
  }

  // False: the first thing that came is an error, which then is the answer.
  bool OpenStream(const GenerationChunk& chunk) {
    if (std::exchange(opened_, true)) return true;
    if (chunk.finish == FinishReason::kError) {
      over_ = true;
      SendError(*responder_, chunk.status);
      return false;
    }
    responder_->StartStream("text/event-stream", CorsHeaders());
    return true;
  }

  void Finish() {
    over_ = true;
    if (stream_) {
      responder_->Write(answer_.StreamEnd());
      responder_->End();
    } else if (!answer_.status().ok()) {
      SendError(*responder_, answer_.status());
    } else {
      SendJson(*responder_, 200, answer_.Body());
    }
  }

  void Abandon() {
    std::vector<uint64_t> ids;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      ids.swap(ids_);
    }
    for (const uint64_t id : ids) service_->Cancel(id);
  }

  LlmService* const service_;
  const std::shared_ptr<HttpResponder> responder_;
  const bool stream_;
  std::mutex mutex_;
  OpenAiAnswer answer_;        // guarded by mutex_
  std::vector<uint64_t> ids_;  // guarded by mutex_
  bool opened_ = false;        // guarded by mutex_
  bool over_ = false;          // guarded by mutex_
};

class Gateway : public HttpGateway {
 public:
  Gateway(const Options& options, LlmService* service) : options_(options), service_(service) {}
  ~Gateway() override { Stop(absl::ZeroDuration()); }

  absl::Status Listen() {
    ASSIGN_OR_RETURN(server_, HttpServer::Start({.host = options_.host,
                                                 .port = options_.port,
                                                 .max_body_bytes = options_.max_body_bytes,
                                                 .max_connections = options_.max_connections},
                                                [this](const HttpRequest& request,
                                                       std::shared_ptr<HttpResponder> responder) {
                                                  Route(request, std::move(responder));
                                                }));
    return absl::OkStatus();
  }
  uint16_t port() const override { return server_->port(); }
  void Stop(absl::Duration grace) override {
    if (server_ != nullptr) server_->Stop(grace);
  }

 private:
  using Method = void (Gateway::*)(const HttpRequest&, std::shared_ptr<HttpResponder>);
  struct RouteRow {
    std::string_view method;
    std::string_view path;
    Method handle;
    bool open = false;  // to those without a key too
  };
  static constexpr int kNumRoutes = 12;
  static const RouteRow kRoutes[kNumRoutes];

  void Route(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    if (request.method == "OPTIONS") return Preflight(request, std::move(responder));
    const std::string_view method =
        request.method == "HEAD" ? "GET" : std::string_view(request.method);
    std::string allowed_methods;  // on a path that there is
    for (const RouteRow& row : kRoutes) {
      if (row.path != request.path) continue;
      if (row.method == method) {
        if (absl::Status allowed = Allow(row, request); !allowed.ok())
          return SendError(*responder, allowed);
        return (this->*row.handle)(request, std::move(responder));
      }
      if (!allowed_methods.empty()) allowed_methods += ", ";
      allowed_methods += row.method;
    }
    if (allowed_methods.empty()) {
      return Refuse(*responder, 404, "unknown_url", fmt::format("unknown path {}", request.path));
    }
    Refuse(*responder, 405, "method_not_allowed",
           fmt::format("method {} is not allowed on {}", request.method, request.path),
           {{"Allow", allowed_methods}});
  }

  static void Refuse(HttpResponder& responder, int status, std::string_view code,
                     const std::string& message, const HttpHeaders& more = {}) {
    const Json error = {{"message", message},
                        {"type", "invalid_request_error"},
                        {"param", nullptr},
                        {"code", code}};
    HttpHeaders headers = CorsHeaders();
    headers.insert(headers.end(), more.begin(), more.end());
    responder.Send(status, kJson, engine::JsonText({{"error", error}}), std::move(headers));
  }

  absl::Status Allow(const RouteRow& row, const HttpRequest& request) const {
    if (row.open || !options_.authorize) return absl::OkStatus();
    return options_.authorize(request.Header("authorization"));
  }

  void Preflight(const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    responder->Send(204, "", "",
                    {{"Access-Control-Allow-Origin", "*"},
                     {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                     // "*" stands for all but this one; OpenAI's own client sends many.
                     {"Access-Control-Allow-Headers", "Authorization, *"},
                     {"Access-Control-Max-Age", "86400"}});
  }

  absl::Status CheckModelName(std::string_view name) const {
    const std::string served = service_->model().name;
    if (name.empty() || name == served) return absl::OkStatus();
    return NotFound("model: got '{}', expected '{}', which is the one served here",
                    name.substr(0, 128), served);
  }

  void Complete(OpenAiEndpoint endpoint, const HttpRequest& request,
                std::shared_ptr<HttpResponder> responder) {
    auto call = ParseOpenAiCall(endpoint, request.body);
    if (!call.ok()) return SendError(*responder, call.status());
    if (absl::Status model = CheckModelName(call->model); !model.ok())
      return SendError(*responder, model);
    for (GenerationRequest& each : call->requests) {
      each.client_id = request.id;
      each.client = ClientOf(request.Header("authorization"), request.peer);
    }
    const auto exchange = std::make_shared<Exchange>(*call, service_, request.id, responder);
    if (absl::Status begun = exchange->Begin(call->requests); !begun.ok())
      SendError(*responder, begun);
  }
  void ChatCompletions(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    Complete(OpenAiEndpoint::kChat, request, std::move(responder));
  }
  void Completions(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    Complete(OpenAiEndpoint::kCompletion, request, std::move(responder));
  }

  void Embeddings(const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    SendError(
        *responder,
        InvalidArgument("model: {} makes text; it has no pooling that would make an embedding",
                        service_->model().name));
  }

  void Models(const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    const ModelSummary model = service_->model();
    SendJson(*responder, 200,
             {{"object", "list"},
              {"data", Json::array({{{"id", model.name},
                                     {"object", "model"},
                                     {"created", started_unix_s_},
                                     {"owned_by", "baton"},
                                     {"architecture", model.architecture},
                                     {"context_length", model.context_length},
                                     {"parameters", model.parameters}}})}});
  }

  void Tokenize(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    const Json body = engine::ParseJson(request.body, "body").value_or(Json());
    if (!body.is_object() || !body.contains("content") || !body["content"].is_string()) {
      return SendError(
          *responder,
          InvalidArgument("content: expected a JSON object with a string of this name"));
    }
    const auto flag = [&](const char* name) { return body.contains(name) && body[name] == true; };
    const auto ids = service_->Tokenize(body["content"].get<std::string>(), flag("parse_special"),
                                        flag("add_special"));
    if (!ids.ok()) return SendError(*responder, ids.status());
    SendJson(*responder, 200, {{"tokens", *ids}});
  }

  void Detokenize(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    const Json body = engine::ParseJson(request.body, "body").value_or(Json());
    std::vector<engine::TokenId> ids;
    bool sound = body.is_object() && body.contains("tokens") && body["tokens"].is_array();
    for (size_t i = 0; sound && i < body["tokens"].size(); ++i) {
      const Json& id = body["tokens"][i];
      sound = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max();
      if (sound) ids.push_back(id.get<engine::TokenId>());
    }
    if (!sound)
      return SendError(
          *responder, InvalidArgument("tokens: expected a JSON object with an array of token ids"));
    const auto text = service_->Detokenize(ids, /*special=*/true);
    if (!text.ok()) return SendError(*responder, text.status());
    SendJson(*responder, 200, {{"content", *text}});
  }

  void Health(const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    const Recovery::Snapshot state = service_->cluster().state;
    const bool ready = state.state == ClusterState::kReady;
    SendJson(*responder, ready ? 200 : 503,
             {{"status", ready ? "ok" : ClusterStateName(state.state)}, {"reason", state.reason}});
  }

  void Cluster(const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    SendJson(*responder, 200, ClusterToJson(service_->cluster()));
  }

  // ?request=ID; the latest where absent.
  void Trace(const HttpRequest& request, std::shared_ptr<HttpResponder> responder) {
    constexpr std::string_view kKey = "request=";
    std::string_view id = request.query;
    id = id.starts_with(kKey) ? id.substr(kKey.size()) : std::string_view();
    auto trace = service_->Trace(id);
    if (!trace.ok()) return SendError(*responder, trace.status());
    responder->Send(200, kJson, *std::move(trace), CorsHeaders());
  }

  void Metrics(const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    if (!options_.metrics_text)
      return SendError(*responder, NotFound("metrics are not collected here"));
    responder->Send(200, "text/plain; version=0.0.4; charset=utf-8", options_.metrics_text());
  }

  void Page(const HttpRequest&, std::shared_ptr<HttpResponder> responder) {
    responder->Send(200, "text/html; charset=utf-8", std::string(WebPage()),
                    {{"Content-Security-Policy",
                      "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                      "img-src data:"}});
  }

  const Options options_;
  LlmService* const service_;
  const int64_t started_unix_s_ = UnixSeconds();
  std::unique_ptr<HttpServer> server_;
};

constexpr Gateway::RouteRow Gateway::kRoutes[Gateway::kNumRoutes] = {
    {"GET", "/", &Gateway::Page, true},
    {"POST", "/v1/chat/completions", &Gateway::ChatCompletions},
    {"POST", "/v1/completions", &Gateway::Completions},
    {"POST", "/v1/embeddings", &Gateway::Embeddings},
    {"GET", "/v1/models", &Gateway::Models},
    {"POST", "/tokenize", &Gateway::Tokenize},
    {"POST", "/detokenize", &Gateway::Detokenize},
    {"GET", "/health", &Gateway::Health, true},
    {"GET", "/metrics", &Gateway::Metrics},
    {"GET", "/api/cluster", &Gateway::Cluster},
    {"GET", "/api/trace", &Gateway::Trace},
    {"GET", "/v1/health", &Gateway::Health, true},
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpGateway>> HttpGateway::Start(const Options& options,
                                                                LlmService* service) {
  auto gateway = std::make_unique<Gateway>(options, service);
  RETURN_IF_ERROR(gateway->Listen());
  return std::unique_ptr<HttpGateway>(std::move(gateway));
}

}  // namespace baton::coordinator
