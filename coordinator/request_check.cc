#include "coordinator/request_check.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "engine/text/stop_strings.h"

namespace baton::coordinator {
namespace {

struct FloatRule {
  std::string_view name;
  float engine::SamplingParams::*member;
  float least;
  float most;
};
constexpr float kAnyFloat = std::numeric_limits<float>::max();
constexpr FloatRule kFloatRules[] = {
    {"temperature", &engine::SamplingParams::temperature, 0, kAnyFloat},
    {"top_p", &engine::SamplingParams::top_p, 0, 1},
    {"min_p", &engine::SamplingParams::min_p, 0, 1},
    {"repetition_penalty", &engine::SamplingParams::repetition_penalty, 1e-3f, 1e3f},
    {"presence_penalty", &engine::SamplingParams::presence_penalty, -100, 100},
    {"frequency_penalty", &engine::SamplingParams::frequency_penalty, -100, 100},
};

absl::Status CheckSampling(const engine::SamplingParams& sampling, int32_t vocab_size) {
  for (const FloatRule& rule : kFloatRules) {
    const float value = sampling.*rule.member;
    if (value >= rule.least && value <= rule.most) continue;  // false for NaN
    if (rule.most == kAnyFloat) {
      return InvalidArgument("{}: {}, expected a number of at least {}", rule.name, value,
                             rule.least);
    }
    return InvalidArgument("{}: {}, expected {} to {}", rule.name, value, rule.least, rule.most);
  }
  if (sampling.top_logprobs < -1 || sampling.top_logprobs > kMaxTopLogprobs) {
    return InvalidArgument("top_logprobs: {}, expected 0 to {}", sampling.top_logprobs,
                           kMaxTopLogprobs);
  }
  if (sampling.logit_bias.size() > kMaxLogitBias) {
    return InvalidArgument("logit_bias: {} entries, expected at most {}",
                           sampling.logit_bias.size(), kMaxLogitBias);
  }
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return InvalidArgument("logit_bias: token {}, expected 0 to {}", token, vocab_size - 1);
    }
    if (!std::isfinite(bias))
      return InvalidArgument("logit_bias: {} for token {}, expected a finite number", bias, token);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTokenIds(std::span<const engine::TokenId> ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return InvalidArgument("tokens[{}]: {}, expected 0 to {}", i, ids[i], vocab_size - 1);
  }
  return absl::OkStatus();
}

absl::Status CheckGenerationRequest(const GenerationRequest& request, int32_t vocab_size) {
  RETURN_IF_ERROR(CheckSampling(request.sampling, vocab_size));
  if (request.max_tokens.value_or(0) < 0) {
    return InvalidArgument("max_tokens: {}, expected at least 0", *request.max_tokens);
  }
  if (request.priority < -kMaxPriority || request.priority > kMaxPriority) {
    return InvalidArgument("priority: {}, expected {} to {}", request.priority, -kMaxPriority,
                           kMaxPriority);
  }
  return engine::ValidateStopStrings(request.stop);
}

}  // namespace baton::coordinator
