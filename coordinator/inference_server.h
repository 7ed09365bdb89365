// The coordinator's gRPC server: baton.v1.Inference, health checking, reflection.
#pragma once

#include <memory>
#include <string>

#include "coordinator/api_keys.h"
#include "coordinator/llm_service.h"
#include "coordinator/topology.h"
#include "engine/base/status.h"

namespace baton::coordinator {

class InferenceServer {
 public:
  // Listens at topology.grpc_address. AlreadyExists where the port is taken; PermissionDenied for
  // an address beyond loopback without TLS or `insecure`. `service` and `keys` must outlive the
  // server; null keys: who may connect may call.
  static absl::StatusOr<std::unique_ptr<InferenceServer>> Start(const Topology& topology,
                                                                LlmService* service,
                                                                ApiKeys* keys = nullptr);
  virtual ~InferenceServer() = default;  // cuts open calls after a moment

  virtual std::string address() const = 0;  // with the real port
};

}  // namespace baton::coordinator
