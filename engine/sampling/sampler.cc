#include "engine/sampling/sampler.h"

#include <algorithm>
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

using Candidate = TokenLogit;
bool Better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
bool Worse(const Candidate& a, const Candidate& b) { return Better(b, a); }

float MaxLogit(std::span<const float> logits) {
  float max = -kInfinity;
  for (const float logit : logits) max = std::max(max, logit);
  return max;
}

double Weight(float logit, float max, float temperature = 1) {
  return kernels::WeightOfDistance((logit - max) / temperature);
}

// In the order of exact_math.h. Tokens at -infinity weigh nothing.
double SumOfWeights(std::span<const float> logits, float max) {
  std::vector<double> sums(kernels::kWeightSums, 0.0);
  for (size_t begin = 0; begin < logits.size(); begin += kernels::kWeightSums) {
    const size_t count = std::min<size_t>(kernels::kWeightSums, logits.size() - begin);
    for (size_t i = 0; i < count; ++i) sums[i] += Weight(logits[begin + i], max);
  }
  for (size_t half = kernels::kWeightSums / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

// log(sum of e^logit).
double LogSumExp(std::span<const float> logits) {
  const float max = MaxLogit(logits);
  return max + kernels::Log(SumOfWeights(logits, max));
}

double LogSumExp(const LogitSummary& summary) {
  return summary.best[0].logit + kernels::Log(summary.weight_sum);
}

// The `count` best, best first. `logits` may hold -infinity, which is never among them.
std::vector<Candidate> Best(std::span<const float> logits, size_t count) {
  std::vector<Candidate> heap;  // the worst of the best so far on top
  heap.reserve(std::min(count, logits.size()));
  for (size_t i = 0; i < logits.size() && count > 0; ++i) {
    const Candidate candidate = {static_cast<TokenId>(i), logits[i]};
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
    if (logits[i] != -kInfinity) all.push_back({static_cast<TokenId>(i), logits[i]});
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

// The last tokens, each once, as the repetition penalty takes them.
std::vector<TokenId> RepeatedTokens(const SamplingInput& input) {
  const size_t window = std::min<size_t>(input.recent.size(), kRepetitionWindow);
  const auto last = input.recent.last(window);
  std::vector<TokenId> once(last.begin(), last.end());
  std::sort(once.begin(), once.end());
  once.erase(std::unique(once.begin(), once.end()), once.end());
  return once;
}
bool PenalizesRepetition(const SamplingParams& params) { return params.repetition_penalty != 1.0f; }
bool PenalizesOutput(const SamplingParams& params) {
  return params.presence_penalty != 0 || params.frequency_penalty != 0;
}

// Logit bias and penalties. find(id): where that token's logit stands, null outside the vocabulary.
template <typename Find>
absl::Status Adjust(const SamplingInput& input, const SamplingParams& params, const Find& find) {
  for (const auto& [id, bias] : params.logit_bias) {
    float* logit = find(id);
    if (logit == nullptr) return InvalidArgument("logit_bias: no token {}", id);
    *logit += bias;
  }
  const auto open = [&](TokenId id) -> float* {  // in the vocabulary, and not masked
    float* logit = find(id);
    return logit != nullptr && *logit != -kInfinity ? logit : nullptr;
  };
  if (PenalizesRepetition(params)) {
    for (const TokenId id : RepeatedTokens(input)) {
      float* logit = open(id);
      if (logit == nullptr) continue;
      *logit = *logit > 0 ? *logit / params.repetition_penalty : *logit * params.repetition_penalty;
    }
  }
  if (!PenalizesOutput(params)) return absl::OkStatus();
  for (const auto& [id, count] : input.output_counts) {
    float* logit = count > 0 ? open(id) : nullptr;
    if (logit == nullptr) continue;
    *logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
  }
  return absl::OkStatus();
}

// Extreme parameters may have made infinities, of which only the negative has a meaning.
float Bounded(float logit) { return std::min(logit, std::numeric_limits<float>::max()); }

// The tokens whose logits Adjust changes, in order; a bias may name one that is not there.
std::vector<TokenId> AdjustedTokens(const SamplingInput& input, const SamplingParams& params,
                                    size_t vocab_size) {
  std::vector<TokenId> ids;
  for (const auto& [id, bias] : params.logit_bias) ids.push_back(id);
  const auto add = [&](TokenId id) {
    if (id >= 0 && static_cast<size_t>(id) < vocab_size) ids.push_back(id);
  };
  if (PenalizesRepetition(params)) {
    for (const TokenId id : RepeatedTokens(input)) add(id);
  }
  if (PenalizesOutput(params)) {
    for (const auto& [id, count] : input.output_counts) add(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Top-p and min-p: takes candidates best first, until the smallest set of them that holds `top_p`
// of `total` is complete, or a weight falls below `min_p` of the best one's.
class Nucleus {
 public:
  Nucleus(const SamplingParams& params, float max, double total)
      : max_(max),
        min_p_(params.min_p),
        wanted_(params.top_p < 1 ? params.top_p * total : double{kInfinity}) {}

  // False: neither this one nor any after it.
  bool Take(const Candidate& next) {
    const double weight = Weight(next.logit, max_);
    if (!kept_.empty() && (sum_ >= wanted_ || weight < min_p_)) return false;
    kept_.push_back(next);
    sum_ += weight;
    return true;
  }
  std::vector<Candidate> TakeKept() { return std::move(kept_); }

  static bool Filters(const SamplingParams& params) { return params.top_p < 1 || params.min_p > 0; }

 private:
  const float max_;
  const double min_p_, wanted_;
  double sum_ = 0;
  std::vector<Candidate> kept_;
};

double SumOfWeights(std::span<const Candidate> candidates, float max) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += Weight(candidate.logit, max);
  return sum;
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

bool IsGreedy(const SamplingParams& params) { return params.temperature < kGreedyTemperature; }
// How many of the best may be drawn at all; 0: no limit.
size_t MostCandidates(const SamplingParams& params, size_t vocab_size) {
  if (IsGreedy(params)) return 1;
  return params.top_k > 0 && static_cast<size_t>(params.top_k) < vocab_size
             ? static_cast<size_t>(params.top_k)
             : 0;
}

absl::Status NoneAllowed(const SamplingInput& input) {
  return FailedPrecondition("no token is allowed at position {}", input.position);
}

TokenId DrawAt(const SamplingInput& input, const SamplingParams& params,
               const std::vector<Candidate>& candidates) {
  return Draw(candidates, params.temperature, UniformAt(params.seed, input.position));
}

absl::StatusOr<TokenId> Choose(const SamplingInput& input, const SamplingParams& params) {
  std::vector<float> logits(input.logits.begin(), input.logits.end());
  RETURN_IF_ERROR(ApplyMask(input.allowed, logits));
  RETURN_IF_ERROR(Adjust(input, params, [&](TokenId id) {
    return id >= 0 && static_cast<size_t>(id) < logits.size() ? &logits[id] : nullptr;
  }));
  for (float& logit : logits) logit = Bounded(logit);

  const size_t most = MostCandidates(params, logits.size());
  std::vector<Candidate> candidates = most > 0 ? Best(logits, most) : AllCandidates(logits);
  if (candidates.empty()) return NoneAllowed(input);
  if (IsGreedy(params)) return candidates[0].id;
  if (!Nucleus::Filters(params)) return DrawAt(input, params, candidates);

  const float max = std::max_element(candidates.begin(), candidates.end(), Worse)->logit;
  Nucleus nucleus(params, max,
                  most > 0 ? SumOfWeights(candidates, max) : SumOfWeights(logits, max));
  // What is kept is few of many, so they come off a heap one by one.
  std::make_heap(candidates.begin(), candidates.end(), Worse);
  while (!candidates.empty() && nucleus.Take(candidates.front())) {
    std::pop_heap(candidates.begin(), candidates.end(), Worse);
    candidates.pop_back();
  }
  return DrawAt(input, params, nucleus.TakeKept());
}

// The same from a summary; nothing where it does not reach far enough.
absl::StatusOr<std::optional<TokenId>> Choose(const LogitSummary& summary,
                                              const LogitQuestion& question,
                                              const SamplingInput& input,
                                              const SamplingParams& params, size_t vocab_size) {
  std::vector<float> adjusted = summary.asked;
  const auto find = [&](TokenId id) -> float* {
    const auto at = std::lower_bound(question.ids.begin(), question.ids.end(), id);
    return at != question.ids.end() && *at == id ? &adjusted[at - question.ids.begin()] : nullptr;
  };
  RETURN_IF_ERROR(Adjust(input, params, find));
  std::vector<Candidate> candidates;
  for (const Candidate& candidate : summary.best) {
    if (find(candidate.id) == nullptr) candidates.push_back(candidate);
  }
  for (size_t i = 0; i < adjusted.size(); ++i) {
    if (adjusted[i] != -kInfinity) candidates.push_back({question.ids[i], Bounded(adjusted[i])});
  }
  std::sort(candidates.begin(), candidates.end(), Better);

  const size_t most = MostCandidates(params, vocab_size);
  if (most > 0 && candidates.size() > most) candidates.resize(most);
  if (candidates.empty()) return NoneAllowed(input);
  if (IsGreedy(params)) return candidates[0].id;
  if (!Nucleus::Filters(params)) return DrawAt(input, params, candidates);

  const float max = candidates[0].logit;
  Nucleus nucleus(params, max, most > 0 ? SumOfWeights(candidates, max) : summary.weight_sum);
  const bool cut = !std::ranges::all_of(
      candidates, [&](const Candidate& candidate) { return nucleus.Take(candidate); });
  if (!cut && most == 0 && !summary.all) return std::nullopt;
  return DrawAt(input, params, nucleus.TakeKept());
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
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  sampled.logprob = logprob(input.logits[sampled.id]);
  for (const Candidate& best : Best(input.logits, params.top_logprobs))
    sampled.top.push_back({best.id, logprob(best.logit)});
  return sampled;
}

float LogProbability(std::span<const float> logits, TokenId target) {
  return static_cast<float>(logits[target] - LogSumExp(logits));
}

// ---- from a summary of the row -----------------------------------------------------------------

std::optional<LogitQuestion> QuestionFor(const SamplingInput& input, const SamplingParams& params,
                                         int32_t vocab_size) {
  if (!input.allowed.empty()) return std::nullopt;
  const auto size = static_cast<size_t>(vocab_size);
  LogitQuestion question{.best = 1, .ids = AdjustedTokens(input, params, size)};
  const bool all_known =
      question.ids.empty() || (question.ids.front() >= 0 && question.ids.back() < vocab_size);
  const size_t most = MostCandidates(params, size);
  // Without a limit the whole row is drawn from, or adjusted logits are part of its sum.
  const bool bounded = most > 0 || (Nucleus::Filters(params) && question.ids.empty());
  // A token that is not adjusted and among the best `most` of the adjusted row has fewer than
  // `most` better ones that are not adjusted either.
  const size_t best = std::max<size_t>(most > 0 ? most + question.ids.size() : kMostBestLogits,
                                       std::max(params.top_logprobs, 0));
  if (!all_known || !bounded || best > kMostBestLogits) return std::nullopt;
  question.best = static_cast<int32_t>(best);
  question.weight_sum = params.top_logprobs >= 0 || (most == 0 && params.top_p < 1);
  return question;
}

absl::StatusOr<std::optional<SampledToken>> Sample(const LogitSummary& summary,
                                                   const LogitQuestion& question,
                                                   const SamplingInput& input,
                                                   const SamplingParams& params,
                                                   int32_t vocab_size) {
  if (!summary.sound) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<TokenId> id,
                   Choose(summary, question, input, params, static_cast<size_t>(vocab_size)));
  if (!id.has_value()) return std::nullopt;
  SampledToken sampled;
  sampled.id = *id;
  if (params.top_logprobs < 0) return sampled;

  const double log_sum = LogSumExp(summary);
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_sum); };
  const auto add = [&](const Candidate& token) {
    if (token.id == sampled.id) sampled.logprob = logprob(token.logit);
  };
  for (size_t i = 0; i < question.ids.size(); ++i) add({question.ids[i], summary.asked[i]});
  for (const Candidate& best : summary.best) {
    add(best);
    if (sampled.top.size() < static_cast<size_t>(params.top_logprobs))
      sampled.top.push_back({best.id, logprob(best.logit)});
  }
  return sampled;
}

LogitQuestion QuestionForScore(TokenId target) {
  return {.best = 1, .ids = {target}, .weight_sum = true};
}
std::optional<float> LogProbability(const LogitSummary& summary) {
  if (!summary.sound || summary.best.empty()) return std::nullopt;
  return static_cast<float>(summary.asked[0] - LogSumExp(summary));
}

}  // namespace baton::engine
