// The coordinator's gRPC server: baton.v1.Inference, health checking, reflection.
#pragma once

#include <memory>
#include <string>

#include "coordinator/llm_service.h"
#include "coordinator/topology.h"
#include "engine/base/status.h"

namespace baton::coordinator {

class InferenceServer {
 public:
  // Listens at topology.grpc_address. AlreadyExists where the port is taken; PermissionDenied for
  // an address beyond loopback without TLS or `insecure`. `service` must outlive the server.
  static absl::StatusOr<std::unique_ptr<InferenceServer>> Start(const Topology& topology,
                                                                LlmService* service);
  virtual ~InferenceServer() = default;  // cuts open calls after a moment

  virtual std::string address() const = 0;  // with the real port
};

}  // namespace baton::coordinator
