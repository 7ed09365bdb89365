// A gRPC server as all of baton's processes run it: where it may listen, by which certificates,
// with health checks and reflection, and how it ends.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "proto/address.h"
#include "proto/channel_options.h"
#include "proto/clock_watch.h"
#include "proto/connection_gate.h"
#include "proto/listen.h"
#include "proto/security.h"

namespace baton::wire {

struct GrpcServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT
  Security security;
  bool insecure = false;  // beyond loopback without TLS; warns
  PeerCertificate peer_certificate = PeerCertificate::kRequired;
  int max_received_bytes = kMaxMessageBytes;  // of a message
  size_t max_connections = 512;               // at once, half of them from one address
};

// Owner: whoever owns the service, which must outlive this.
class GrpcServer {
 public:
  // InvalidArgument for an address that is none, AlreadyExists for a port in use, PermissionDenied
  // for an open address.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                           grpc::Service* service);
  ~GrpcServer();  // ends streams, waits at most about a second for calls
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  const Address& address() const { return address_; }  // with the real port
  // What health checks hear of the server and of `service`; serving from the start.
  void SetServing(const std::string& service, bool serving);

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
  GrpcServer(Address address, std::vector<Socket> listening, size_t max_connections,
             std::unique_ptr<Acceptor> acceptor, std::unique_ptr<grpc::Server> server);

  ClockWatch clock_;
  const Address address_;
  const std::unique_ptr<Acceptor> acceptor_;
  const std::unique_ptr<grpc::Server> server_;
  std::optional<ConnectionGate> gate_;  // ends first
};

}  // namespace baton::wire
