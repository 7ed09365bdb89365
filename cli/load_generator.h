// Puts a load on a service and notes when each token came: many clients, lengths drawn from a
// distribution, requests that follow each other (closed loop) or arrive at random (open loop).
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cluster_status.h"
#include "coordinator/llm_service.h"
#include "engine/base/status.h"

namespace baton::cli {

// How long prompts or answers are: "128", "16-512" (all alike likely) or "exp:128" (exponential, of
// that mean: many short ones and a few long ones, as people write).
class LengthDistribution {
 public:
  static absl::StatusOr<LengthDistribution> Parse(std::string_view flag, std::string_view text);
  int32_t Draw(std::mt19937_64& random) const;  // at least 1, at most max()
  int32_t max() const { return max_; }

 private:
  bool exponential_ = false;
  int32_t min_ = 1;
  int32_t max_ = 1;
  double mean_ = 1;
};

struct LoadPlan {
  int32_t requests = 64;
  int32_t clients = 8;    // closed loop: each asks again when its answer has ended
  double rate_per_s = 0;  // > 0: open loop, arrivals at random times (Poisson) at this rate
  LengthDistribution prompt = {};
  LengthDistribution output = {};
  int32_t shared_prefix = 0;  // tokens that all prompts begin with, within their length
  uint64_t seed = 1;
  bool speculation = true;
  absl::Duration timeout = absl::Minutes(10);  // of one request
};

// One request as its client saw it.
struct RequestTrace {
  absl::Time arrived;  // when it should have been sent: waiting counts
  int32_t prompt_tokens = 0;
  std::vector<absl::Time> tokens;  // when each came
  absl::Time ended;
  absl::Status status;
};

struct LoadResult {
  absl::Time begin;
  absl::Time end;
  std::vector<RequestTrace> requests;
  coordinator::ClusterStatus before;  // counters
  coordinator::ClusterStatus after;

  double seconds() const { return absl::ToDoubleSeconds(end - begin); }
};

// Blocks until all requests have ended.
LoadResult RunLoad(coordinator::LlmService* service, const LoadPlan& plan);

}  // namespace baton::cli
