// How a token is drawn from logits: what a request may ask for. A value; travels with every micro-batch.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/token_id.h"

namespace baton::engine {

struct SamplingParams {
  float temperature = 0.8f;         // 0: greedy, the lowest id wins a tie
  int32_t top_k = 40;               // <= 0 or >= vocab: off
  float top_p = 0.95f;              // 1: off; 0 keeps one token
  float min_p = 0.05f;              // 0: off
  float repetition_penalty = 1.0f;  // over the last 64 tokens; 1: off
  float presence_penalty = 0.0f;    // over the whole output; 0: off
  float frequency_penalty = 0.0f;   // the same, times the count
  uint64_t seed = 0;                // the coordinator draws one where the request has none
  std::vector<std::pair<TokenId, float>> logit_bias;
  int32_t top_logprobs = -1;        // -1: no logprobs; n >= 0: the token's own and the n best
};

}  // namespace baton::engine
