#include "coordinator/inference_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "coordinator/inference_service.h"
#include "proto/address.h"
#include "proto/channel_options.h"
#include "proto/listen.h"

namespace baton::coordinator {
namespace {

constexpr auto kShutdownTime = std::chrono::seconds(1);
constexpr auto kHealthEvery = std::chrono::milliseconds(200);

class GrpcInferenceServer : public InferenceServer {
 public:
  GrpcInferenceServer(wire::Address address, LlmService* service)
      : address_(std::move(address)), llm_(service), service_(service) {}

  ~GrpcInferenceServer() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    if (health_.joinable()) health_.join();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
  }

  absl::Status Listen(const wire::Security& security) {
    ASSIGN_OR_RETURN(const auto credentials, wire::MakeServerCredentials(security));
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    grpc::ServerBuilder builder;
    wire::ApplyServerOptions(builder);
    int port = 0;
    builder.AddListeningPort(address_.ToString(), credentials, &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0)
      return Unknown("listening on {}: gRPC could not start", address_.ToString());
    address_.port = static_cast<uint16_t>(port);
    health_ = std::thread([this] { ReportHealth(); });
    return absl::OkStatus();
  }

  std::string address() const override { return address_.ToString(); }

 private:
  // Serving while the cluster is ready.
  void ReportHealth() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      const bool ready = llm_->cluster().state.state == ClusterState::kReady;
      server_->GetHealthCheckService()->SetServingStatus(ready);
      server_->GetHealthCheckService()->SetServingStatus("baton.v1.Inference", ready);
      lock.lock();
      stop_.wait_for(lock, kHealthEvery, [this] { return stopping_; });
    }
  }

  wire::Address address_;
  LlmService* const llm_;
  InferenceService service_;
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::unique_ptr<grpc::Server> server_;  // ends before what it serves
  std::thread health_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<InferenceServer>> InferenceServer::Start(const Topology& topology,
                                                                        LlmService* service) {
  ASSIGN_OR_RETURN(wire::Address address, wire::ParseAddress(topology.grpc_address));
  wire::Security security;
  if (topology.tls) security = {topology.tls->ca, topology.tls->cert, topology.tls->key};
  RETURN_IF_ERROR(wire::CheckListenPolicy(address, security, topology.insecure));
  RETURN_IF_ERROR(wire::CheckPortFree(address));
  auto server = std::make_unique<GrpcInferenceServer>(std::move(address), service);
  RETURN_IF_ERROR(server->Listen(security));
  return server;
}

}  // namespace baton::coordinator
