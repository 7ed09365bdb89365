// Who answers: a coordinator and workers inside this process, or a running coordinator over gRPC.
#pragma once

#include <memory>

#include "cli/model_flags.h"
#include "cli/server_flags.h"
#include "coordinator/llm_service.h"
#include "engine/base/status.h"

namespace baton::cli {

// Owns what answers. One a command.
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;
  virtual coordinator::LlmService* service() = 0;
};

// Opens the model, starts a coordinator and its workers in this process, and waits until they are
// loaded.
absl::StatusOr<std::unique_ptr<AnswerSource>> StartLocalCluster(const ModelFlags& flags);
absl::StatusOr<std::unique_ptr<AnswerSource>> ConnectToServer(const ServerFlags& flags);

// One or the other, as the flags say; a usage error where neither --model nor --server is there.
absl::StatusOr<std::unique_ptr<AnswerSource>> OpenAnswerSource(const ModelFlags& flags,
                                                               const ServerFlags& server);

}  // namespace baton::cli
