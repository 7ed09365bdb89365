#include "coordinator/inference_server.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "coordinator/inference_service.h"
#include "proto/grpc_server.h"

namespace baton::coordinator {
namespace {

constexpr auto kHealthEvery = std::chrono::milliseconds(200);

class GrpcInferenceServer : public InferenceServer {
 public:
  GrpcInferenceServer(LlmService* service, ApiKeys* keys)
      : llm_(service), service_(service, keys) {}

  ~GrpcInferenceServer() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    if (health_.joinable()) health_.join();
  }

  absl::Status Listen(const wire::GrpcServerOptions& options) {
    ASSIGN_OR_RETURN(server_, wire::GrpcServer::Start(options, &service_));
    health_ = std::thread([this] { ReportHealth(); });
    return absl::OkStatus();
  }

  std::string address() const override { return server_->address().ToString(); }

 private:
  // Serving while the cluster is ready.
  void ReportHealth() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      server_->SetServing("baton.v1.Inference",
                          llm_->cluster().state.state == ClusterState::kReady);
      lock.lock();
      stop_.wait_for(lock, kHealthEvery, [this] { return stopping_; });
    }
  }

  LlmService* const llm_;
  InferenceService service_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::unique_ptr<wire::GrpcServer> server_;  // ends before what it serves
  std::thread health_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<InferenceServer>> InferenceServer::Start(const Topology& topology,
                                                                        LlmService* service,
                                                                        ApiKeys* keys) {
  wire::GrpcServerOptions options;
  options.listen = topology.grpc_address;
  if (topology.tls) options.security = {topology.tls->ca, topology.tls->cert, topology.tls->key};
  options.insecure = topology.insecure;
  options.max_received_bytes = topology.limits.message_bytes;
  options.max_connections = static_cast<size_t>(topology.limits.connections);
  if (keys != nullptr) options.peer_certificate = wire::PeerCertificate::kOptional;
  auto server = std::make_unique<GrpcInferenceServer>(service, keys);
  RETURN_IF_ERROR(server->Listen(options));
  return server;
}

}  // namespace baton::coordinator
