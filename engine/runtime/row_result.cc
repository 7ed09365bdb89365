#include "engine/runtime/row_result.h"

#include <algorithm>
#include <cmath>

namespace baton::engine {
namespace {

TokenId LargestLogit(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

float LogProbability(std::span<const float> logits, TokenId token) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<float>(static_cast<double>(logits[token]) - largest - std::log(sum));
}

void MakeRowResult(const OutputRow& output, int32_t /*position*/, std::span<float> logits,
                   RowResult& result) {
  result = {};
  result.row = output.row;
  switch (output.kind) {
    case OutputKind::kSample:
      result.token = LargestLogit(logits);
      return;
    case OutputKind::kLogits:
      result.logits.assign(logits.begin(), logits.end());
      return;
    case OutputKind::kScore:
      result.token = output.target;
      result.logprob = LogProbability(logits, output.target);
      return;
  }
}

}  // namespace baton::engine
