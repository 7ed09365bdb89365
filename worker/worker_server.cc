#include "worker/worker_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "proto/channel_options.h"
#include "proto/listen.h"
#include "worker/grpc_next_stage.h"
#include "worker/worker.h"
#include "worker/worker_service.h"

namespace baton::worker {
namespace {

constexpr auto kShutdownTime = std::chrono::seconds(1);

class GrpcWorkerServer : public WorkerServer {
 public:
  GrpcWorkerServer(const WorkerServerOptions& options, wire::Address address,
                   std::unique_ptr<StageLoader> loader)
      : address_(std::move(address)),
        worker_({.name = options.name.empty() ? address_.ToString() : options.name,
                 .memory_budget_bytes = options.memory_budget_bytes},
                std::move(loader), GrpcNextStageFactory(options.security)),
        service_(&worker_, options.models_dir) {}

  ~GrpcWorkerServer() override {
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
    return absl::OkStatus();
  }

  wire::Address address() const override { return address_; }

 private:
  wire::Address address_;
  Worker worker_;
  WorkerService service_;
  std::unique_ptr<grpc::Server> server_;  // ends before what it serves
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(
    const WorkerServerOptions& options, std::unique_ptr<StageLoader> loader) {
  ASSIGN_OR_RETURN(const wire::Address address, wire::ParseAddress(options.listen));
  RETURN_IF_ERROR(wire::CheckListenPolicy(address, options.security, options.insecure));
  RETURN_IF_ERROR(wire::CheckPortFree(address));
  auto server = std::make_unique<GrpcWorkerServer>(options, address, std::move(loader));
  RETURN_IF_ERROR(server->Listen(options.security));
  return server;
}

}  // namespace baton::worker
