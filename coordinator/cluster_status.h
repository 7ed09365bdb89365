// What status, metrics and the web page show. Values, as of a moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/pipeline.h"
#include "coordinator/recovery.h"
#include "coordinator/worker_registry.h"
#include "engine/base/token_id.h"

namespace baton::coordinator {

struct ModelSummary {
  std::string name;
  std::string architecture;
  std::string fingerprint;
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t vocab_size = 0;
  int32_t context_length = 0;  // as configured
  int32_t trained_context_length = 0;
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  engine::TokenId bos = engine::kNoToken;
  engine::TokenId eos = engine::kNoToken;
  bool has_chat_template = false;
  std::vector<std::string> warnings;
};

struct ClusterStatus {
  ModelSummary model;
  int32_t pid = 0;  // of the coordinator
  uint64_t rss_bytes = 0;
  double uptime_s = 0;
  Recovery::Snapshot state;
  std::vector<WorkerSnapshot>
      workers;  // a stage of `pipeline.stages` is state.placement's entry of the same index
  PipelineStats pipeline;
  std::string bottleneck;  // why it is not faster, for people
};

// Times of links are known by the words of workers, which take half a round trip to the coordinator
// themselves: from what the coordinator heard to what the links take.
void CorrectLinkTimes(ClusterStatus* status);

}  // namespace baton::coordinator
