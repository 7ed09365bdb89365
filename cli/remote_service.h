// A running coordinator, as LlmService: the client side of baton.v1.Inference.
#pragma once

#include <absl/time/time.h>

#include <memory>

#include "cli/server_flags.h"
#include "coordinator/cluster_status.h"
#include "coordinator/llm_service.h"
#include "engine/base/status.h"

namespace baton::cli {

// Any thread. Each answer has a thread of its own that reads its stream.
class RemoteService : public coordinator::LlmService {
 public:
  // Nothing is sent yet; InvalidArgument for an address that is none.
  static absl::StatusOr<std::unique_ptr<RemoteService>> Make(const ServerFlags& flags);
  ~RemoteService() override = default;

  // Unavailable where nobody listens.
  virtual absl::StatusOr<coordinator::ModelSummary> FetchModel(absl::Duration timeout) = 0;
  virtual absl::StatusOr<coordinator::ClusterStatus> FetchCluster(absl::Duration timeout) = 0;
};

}  // namespace baton::cli
