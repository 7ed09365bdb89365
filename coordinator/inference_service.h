// The gRPC face of LlmService: baton.v1.Inference, health checking, reflection.
#pragma once

#include <memory>
#include <string>

#include "coordinator/llm_service.h"
#include "coordinator/topology.h"
#include "engine/base/status.h"

namespace baton::coordinator {

class InferenceServer {
 public:
  // Listens at topology.grpc_address. Refuses an address beyond loopback without TLS or `insecure`.
  // `service` must outlive the server.
  static absl::StatusOr<std::unique_ptr<InferenceServer>> Start(const Topology& topology,
                                                                LlmService* service);
  virtual ~InferenceServer() = default;  // Shutdown

  virtual std::string address() const = 0;  // with the real port
  virtual void Shutdown() = 0;              // open calls are cut after a moment
};

}  // namespace baton::coordinator
