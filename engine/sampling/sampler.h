// Draws a token from a row of logits. A pure function: the same arguments give the same token, on
// any machine.
//
// Order: grammar mask, logit bias, penalties, top-k, top-p, min-p, temperature. All arithmetic is
// exact operations and kernels/exact_math.h in a stated order; ties go to the lower id.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/sampling/sampling_params.h"
#include "engine/sampling/token_logprob.h"
#include "engine/tensor/logit_summary.h"

namespace baton::engine {

inline constexpr int kRepetitionWindow = 64;  // tokens that the repetition penalty looks back on

// InvalidArgument names the first parameter that is out of range, not a number or infinite.
absl::Status ValidateSamplingParams(const SamplingParams& params);

struct SamplingInput {
  std::span<const float> logits;         // [vocab_size]
  uint64_t position = 0;                 // of the token that is drawn, in its sequence
  std::span<const TokenId> recent = {};  // the last kRepetitionWindow tokens
  std::span<const std::pair<TokenId, int32_t>> output_counts =
      {};                                  // of the output so far, each token once
  std::span<const uint32_t> allowed = {};  // a bit a token, [(vocab_size + 31) / 32]; empty: all
};

struct SampledToken {
  TokenId id = kNoToken;
  float logprob = 0;              // if params.top_logprobs >= 0
  std::vector<TokenLogprob> top;  // the params.top_logprobs best, best first
};

// `params` are valid. Errors: logits that are NaN or +infinity (a broken model or a bug), a bias
// for a token that is not there, a mask that allows nothing.
absl::StatusOr<SampledToken> Sample(const SamplingInput& input, const SamplingParams& params);

// The log-probability of `target`, which is in the vocabulary; the logits are numbers.
float LogProbability(std::span<const float> logits, TokenId target);

// The same from what a device says of its row of logits, so that the row can stay there. The tokens
// are those that the row gives, to the bit; input.logits is not looked at.
//
// What has to be asked; none where only the row itself will do (a mask, a draw from all of it).
std::optional<LogitQuestion> QuestionFor(const SamplingInput& input, const SamplingParams& params,
                                         int32_t vocab_size);
LogitQuestion QuestionForScore(TokenId target);
// None: the answer does not reach far enough, or the row is broken; the row itself says more.
absl::StatusOr<std::optional<SampledToken>> Sample(const LogitSummary& summary,
                                                   const LogitQuestion& question,
                                                   const SamplingInput& input,
                                                   const SamplingParams& params,
                                                   int32_t vocab_size);
std::optional<float> LogProbability(const LogitSummary& summary);

}  // namespace baton::engine
