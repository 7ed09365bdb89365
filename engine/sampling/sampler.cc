#include "engine/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

#include "engine/sampling/philox.h"
#include "kernels/exact_math.h"

namespace baton::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Below this, dividing by the temperature could only pick the best token, or overflow.
constexpr float kGreedyTemperature = 1e-5f;

struct Candidate {
  float logit;
  TokenId id;
};
bool Better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
bool Worse(const Candidate& a, const Candidate& b) { return Better(b, a); }

float MaxLogit(std::span<const float> logits) {
  float max = -kInfinity;
  for (const float logit : logits) max = std::max(max, logit);
  return max;
}

// e^x for x in [-32, 0], within 1e-12 of the value. Plain products and sums: a row has 150,000 of
// them, and where the machine's fma may not be used, a call for each costs more than all of this.
// Cody and Waite's reduction, then the series.
double ExpOfDistance(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  const double n = (x * 1.4426950408889634 + kMagic) - kMagic;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  constexpr double kReciprocalFactorials[] = {1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                              1.0 / 120,    1.0 / 24,    1.0 / 6,    0.5,
                                              1.0,          1.0};
  double sum = 1.0 / 3628800;
  for (const double coefficient : kReciprocalFactorials) sum = sum * r + coefficient;
  const int64_t exponent = static_cast<int64_t>(n) + 1023;
  return sum * std::bit_cast<double>(exponent << 52);
}

// A weight relative to that of the best logit. Those below e^-32 count as nothing: a million of
// them change a sum by 1e-8.
double Weight(float logit, float max, float temperature = 1) {
  const float distance = (logit - max) / temperature;
  return distance < -32.0f ? 0.0 : ExpOfDistance(distance);
}

// log(sum of e^logit), in order of ids.
double LogSumExp(std::span<const float> logits) {
  const float max = MaxLogit(logits);
  double sum = 0;
  for (const float logit : logits) sum += Weight(logit, max);
  return max + kernels::Log(sum);
}

// The `count` best, best first. `logits` may hold -infinity, which is never among them.
std::vector<Candidate> Best(std::span<const float> logits, size_t count) {
  std::vector<Candidate> heap;  // the worst of the best so far on top
  heap.reserve(std::min(count, logits.size()));
  for (size_t i = 0; i < logits.size() && count > 0; ++i) {
    const Candidate candidate = {logits[i], static_cast<TokenId>(i)};
    if (candidate.logit == -kInfinity) continue;
    if (heap.size() == count) {
      if (!Better(candidate, heap.front())) continue;
      std::pop_heap(heap.begin(), heap.end(), Better);
      heap.pop_back();
    }
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), Better);
  }
  std::sort_heap(heap.begin(), heap.end(), Better);
  return heap;
}

std::vector<Candidate> AllCandidates(std::span<const float> logits) {
  std::vector<Candidate> all;
  all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != -kInfinity) all.push_back({logits[i], static_cast<TokenId>(i)});
  }
  return all;
}

absl::Status CheckLogits(std::span<const float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity))
      return Internal("logit of token {}: {}, not a finite number", i, logits[i]);
  }
  return absl::OkStatus();
}

absl::Status ApplyMask(std::span<const uint32_t> allowed, std::span<float> logits) {
  if (allowed.empty()) return absl::OkStatus();
  const size_t words = (logits.size() + 31) / 32;
  if (allowed.size() != words) {
    return InvalidArgument("mask: {} words, expected {} for {} tokens", allowed.size(), words,
                           logits.size());
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    if ((allowed[i / 32] >> (i % 32) & 1) == 0) logits[i] = -kInfinity;
  }
  return absl::OkStatus();
}

absl::Status ApplyBias(const SamplingParams& params, std::span<float> logits) {
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) {
      return InvalidArgument("logit_bias: token {}, the vocabulary has {}", id, logits.size());
    }
    logits[id] += bias;
  }
  return absl::OkStatus();
}

void ApplyPenalties(const SamplingInput& input, const SamplingParams& params,
                    std::span<float> logits) {
  const auto open = [&](TokenId id) {  // in the vocabulary, and not masked
    return id >= 0 && static_cast<size_t>(id) < logits.size() && logits[id] != -kInfinity;
  };
  if (params.repetition_penalty != 1.0f) {
    const size_t window = std::min<size_t>(input.recent.size(), kRepetitionWindow);
    const auto last = input.recent.last(window);
    std::vector<TokenId> once(last.begin(), last.end());
    std::sort(once.begin(), once.end());
    once.erase(std::unique(once.begin(), once.end()), once.end());
    for (const TokenId id : once) {
      if (!open(id)) continue;
      float& logit = logits[id];
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
  }
  for (const auto& [id, count] : input.output_counts) {
    if (!open(id) || count <= 0) continue;
    logits[id] -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
  }
}

// Cuts the candidates after the smallest set of best ones that holds `top_p` of the weight, and
// where a weight falls below `min_p` of the best; both are prefixes of the candidates in order, so
// they are taken off a heap one by one.
std::vector<Candidate> TopPAndMinP(std::vector<Candidate> candidates,
                                   const SamplingParams& params) {
  const float max = std::max_element(candidates.begin(), candidates.end(), Worse)->logit;
  double wanted = kInfinity;
  if (params.top_p < 1) {
    double total = 0;
    for (const Candidate& candidate : candidates) total += Weight(candidate.logit, max);
    wanted = params.top_p * total;
  }
  std::make_heap(candidates.begin(), candidates.end(), Worse);
  std::vector<Candidate> kept;
  double sum = 0;
  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), Worse);
    const Candidate next = candidates.back();
    candidates.pop_back();
    const double weight = Weight(next.logit, max);
    if (!kept.empty() && (sum >= wanted || weight < params.min_p)) break;
    kept.push_back(next);
    sum += weight;
  }
  return kept;
}

TokenId Draw(const std::vector<Candidate>& candidates, float temperature, double uniform) {
  float max = -kInfinity;
  for (const Candidate& candidate : candidates) max = std::max(max, candidate.logit);
  std::vector<double> sums;
  sums.reserve(candidates.size());
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += Weight(candidate.logit, max, temperature);
    sums.push_back(sum);
  }
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), uniform * sum);
  return candidates[std::min<size_t>(drawn - sums.begin(), candidates.size() - 1)].id;
}

absl::StatusOr<TokenId> Choose(const SamplingInput& input, const SamplingParams& params) {
  std::vector<float> logits(input.logits.begin(), input.logits.end());
  RETURN_IF_ERROR(ApplyMask(input.allowed, logits));
  RETURN_IF_ERROR(ApplyBias(params, logits));
  ApplyPenalties(input, params, logits);
  // Extreme parameters may have made infinities, of which only the negative has a meaning.
  for (float& logit : logits) logit = std::min(logit, std::numeric_limits<float>::max());

  const bool greedy = params.temperature < kGreedyTemperature;
  const bool top_k = params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size();
  std::vector<Candidate> candidates = greedy  ? Best(logits, 1)
                                      : top_k ? Best(logits, params.top_k)
                                              : AllCandidates(logits);
  if (candidates.empty())
    return FailedPrecondition("no token is allowed at position {}", input.position);
  if (greedy) return candidates[0].id;
  if (params.top_p < 1 || params.min_p > 0) candidates = TopPAndMinP(std::move(candidates), params);
  return Draw(candidates, params.temperature, UniformAt(params.seed, input.position));
}

absl::Status CheckRange(std::string_view name, float value, float min, float max) {
  if (value >= min && value <= max && std::abs(value) < kInfinity) return absl::OkStatus();
  if (max == kInfinity)
    return InvalidArgument("{}: {}, expected a number of at least {}", name, value, min);
  return InvalidArgument("{}: {}, expected a number from {} to {}", name, value, min, max);
}
absl::Status CheckFinite(std::string_view name, float value) {
  if (std::abs(value) < kInfinity) return absl::OkStatus();
  return InvalidArgument("{}: {}, expected a finite number", name, value);
}

}  // namespace

absl::Status ValidateSamplingParams(const SamplingParams& params) {
  RETURN_IF_ERROR(CheckRange("temperature", params.temperature, 0, kInfinity));
  RETURN_IF_ERROR(CheckRange("top_p", params.top_p, 0, 1));
  RETURN_IF_ERROR(CheckRange("min_p", params.min_p, 0, 1));
  RETURN_IF_ERROR(CheckFinite("repetition_penalty", params.repetition_penalty));
  if (!(params.repetition_penalty > 0)) {
    return InvalidArgument("repetition_penalty: {}, expected more than 0",
                           params.repetition_penalty);
  }
  RETURN_IF_ERROR(CheckFinite("presence_penalty", params.presence_penalty));
  RETURN_IF_ERROR(CheckFinite("frequency_penalty", params.frequency_penalty));
  for (const auto& [id, bias] : params.logit_bias) {
    RETURN_IF_ERROR(CheckFinite(fmt::format("logit_bias of token {}", id), bias));
  }
  return absl::OkStatus();
}

absl::StatusOr<SampledToken> Sample(const SamplingInput& input, const SamplingParams& params) {
  RETURN_IF_ERROR(CheckLogits(input.logits));
  SampledToken sampled;
  ASSIGN_OR_RETURN(sampled.id, Choose(input, params));
  if (params.top_logprobs < 0) return sampled;

  const double log_sum = LogSumExp(input.logits);
  const auto logprob = [&](TokenId id) { return static_cast<float>(input.logits[id] - log_sum); };
  sampled.logprob = logprob(sampled.id);
  for (const Candidate& best : Best(input.logits, params.top_logprobs)) {
    sampled.top.push_back({best.id, logprob(best.id)});
  }
  return sampled;
}

float LogProbability(std::span<const float> logits, TokenId target) {
  return static_cast<float>(logits[target] - LogSumExp(logits));
}

}  // namespace baton::engine
