#include "proto/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "proto/listen.h"

namespace baton::wire {
namespace {

constexpr auto kShutdownTime = std::chrono::seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              grpc::Service* service) {
  ASSIGN_OR_RETURN(Address address, ParseAddress(options.listen));
  RETURN_IF_ERROR(CheckListenPolicy(address, options.security, options.insecure));
  RETURN_IF_ERROR(CheckPortFree(address));
  ASSIGN_OR_RETURN(const auto credentials,
                   MakeServerCredentials(options.security, options.peer_certificate));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ApplyServerOptions(builder, options.max_received_bytes);
  int port = 0;
  builder.AddListeningPort(address.ToString(), credentials, &port);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0)
    return Unknown("listening on {}: gRPC could not start", address.ToString());
  address.port = static_cast<uint16_t>(port);
  if (!address.IsLoopback() && !options.security.tls()) {
    spdlog::warn("listening on {} without TLS: anyone who reaches this port can use and stop it",
                 address.ToString());
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(address), std::move(server)));
}

GrpcServer::~GrpcServer() { server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime); }

void GrpcServer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace baton::wire
