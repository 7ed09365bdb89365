// What a device should say of a row of logits, made as simply as can be.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "engine/tensor/logit_summary.h"
#include "kernels/exact_math.h"

namespace baton::testing {

inline engine::LogitSummary ReferenceSummary(std::span<const float> logits,
                                             const engine::LogitQuestion& question) {
  engine::LogitSummary summary;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity)) return summary;
    if (logits[i] != -kInfinity)
      summary.best.push_back({static_cast<engine::TokenId>(i), logits[i]});
  }
  summary.sound = true;
  std::ranges::stable_sort(summary.best, std::greater(), &engine::TokenLogit::logit);
  summary.all = summary.best.size() <= static_cast<size_t>(question.best);
  if (!summary.all) summary.best.resize(question.best);
  for (const engine::TokenId id : question.ids) summary.asked.push_back(logits[id]);
  if (!question.weight_sum || summary.best.empty()) return summary;
  std::vector<double> sums(kernels::kWeightSums, 0.0);
  for (size_t i = 0; i < logits.size(); ++i) {
    sums[i % sums.size()] += kernels::WeightOfDistance(logits[i] - summary.best[0].logit);
  }
  for (size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  summary.weight_sum = sums[0];
  return summary;
}

}  // namespace baton::testing
