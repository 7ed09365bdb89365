#include "proto/grpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

namespace baton::wire {
namespace {

constexpr auto kShutdownTime = std::chrono::seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              grpc::Service* service) {
  ASSIGN_OR_RETURN(Address address, ParseAddress(options.listen));
  RETURN_IF_ERROR(CheckListenPolicy(address, options.security, options.insecure));
  ASSIGN_OR_RETURN(std::vector<Socket> listening, Listen(&address));
  ASSIGN_OR_RETURN(const auto credentials,
                   MakeServerCredentials(options.security, options.peer_certificate));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  ApplyServerOptions(builder, options.max_received_bytes);
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr)
    return Unknown("listening on {}: gRPC could not start", address.ToString());
  if (!address.IsLoopback() && !options.security.tls()) {
    spdlog::warn("listening on {} without TLS: anyone who reaches this port can use and stop it",
                 address.ToString());
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(address), std::move(listening),
                                                    options.max_connections, std::move(acceptor),
                                                    std::move(server)));
}

GrpcServer::GrpcServer(Address address, std::vector<Socket> listening, size_t max_connections,
                       std::unique_ptr<Acceptor> acceptor, std::unique_ptr<grpc::Server> server)
    : address_(std::move(address)), acceptor_(std::move(acceptor)), server_(std::move(server)) {
  gate_.emplace(std::move(listening), max_connections, [this](int fd) {
    Acceptor::NewConnectionParameters connection;
    connection.fd = fd;
    acceptor_->HandleNewConnection(&connection);
  });
}

GrpcServer::~GrpcServer() {
  gate_.reset();
  server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
}

void GrpcServer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace baton::wire
