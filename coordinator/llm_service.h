// What baton does for clients, whatever they speak: the gRPC service, the HTTP gateway and the
// CLI's own process all call this.
//
// Any thread. Answers come through sinks on the pipeline's thread.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cluster_status.h"
#include "coordinator/generation.h"
#include "coordinator/topology_change.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"

namespace baton::coordinator {

class LlmService {
 public:
  virtual ~LlmService() = default;

  // An id for Cancel. Errors that the request itself has come at once (InvalidArgument names the
  // parameter), everything later in the last chunk. The sink is called until its last chunk, also
  // after Cancel.
  virtual absl::StatusOr<uint64_t> Generate(const GenerationRequest& request,
                                            GenerationSink sink) = 0;
  virtual absl::StatusOr<uint64_t> Score(const ScoreRequest& request, ScoreSink sink) = 0;
  virtual void Cancel(uint64_t id) = 0;
  // Goes on with a request that a coordinator before this one had taken, from its token
  // `from_token` on.
  virtual absl::StatusOr<uint64_t> Resume(std::string_view /*request_id*/, int32_t /*from_token*/,
                                          absl::Time /*deadline*/, GenerationSink /*sink*/) {
    return Unimplemented("resume: this coordinator keeps no journal");
  }

  virtual absl::StatusOr<std::vector<engine::TokenId>> Tokenize(std::string_view text,
                                                                bool parse_special,
                                                                bool add_special) = 0;
  virtual absl::StatusOr<std::string> Detokenize(std::span<const engine::TokenId> ids,
                                                 bool special) = 0;
  struct RenderedChat {
    std::string text;
    std::vector<engine::TokenId> ids;
  };
  virtual absl::StatusOr<RenderedChat> RenderChat(const ChatPrompt& prompt) = 0;

  // Where the time of a recent request went, as JSON that Chrome and Perfetto show. By its id or
  // the client's; "": the latest.
  virtual absl::StatusOr<std::string> Trace(std::string_view /*request_id*/) {
    return Unimplemented("trace: requests are not recorded here");
  }

  // Conversations that are kept by name (GenerationRequest::session). Those that the command is
  // about, as they are now; none of one that was removed.
  virtual absl::StatusOr<std::vector<SessionInfo>> Session(const SessionCommand& /*command*/) {
    return Unimplemented("sessions: nothing is kept here");
  }

  virtual ModelSummary model() const = 0;
  virtual ClusterStatus cluster() const = 0;
  virtual absl::Status DrainWorker(std::string_view name, absl::Time deadline) = 0;
  // Takes over what the topology file says now: workers that are new, gone or to be used in another
  // way. Blocks until layers have moved.
  virtual absl::StatusOr<TopologyChange> ReloadTopology(absl::Time /*deadline*/) {
    return Unimplemented("reload: there is no topology here");
  }
};

}  // namespace baton::coordinator
