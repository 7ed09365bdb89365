#include "engine/runtime/row_result.h"

#include <utility>

#include "engine/sampling/sampler.h"

namespace baton::engine {
namespace {

SamplingInput InputOf(const OutputRow& output, int32_t position, std::span<const float> logits) {
  return {.logits = logits,
          .position = static_cast<uint64_t>(position) + 1,
          .recent = output.recent,
          .output_counts = output.output_counts,
          .allowed = output.allowed};
}

void Take(SampledToken sampled, RowResult& result) {
  result.token = sampled.id;
  result.logprob = sampled.logprob;
  result.top = std::move(sampled.top);
}

}  // namespace

absl::Status MakeRowResult(const OutputRow& output, int32_t position, std::span<const float> logits,
                           RowResult& result) {
  result = {};
  result.row = output.row;
  switch (output.kind) {
    case OutputKind::kSample: {
      ASSIGN_OR_RETURN(SampledToken sampled,
                       Sample(InputOf(output, position, logits), output.sampling));
      Take(std::move(sampled), result);
      return absl::OkStatus();
    }
    case OutputKind::kLogits:
      result.logits.assign(logits.begin(), logits.end());
      return absl::OkStatus();
    case OutputKind::kScore:
      result.logprob = LogProbability(logits, output.target);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

std::optional<LogitQuestion> QuestionFor(const OutputRow& output, int32_t position,
                                         int32_t vocab_size) {
  switch (output.kind) {
    case OutputKind::kSample:
      return QuestionFor(InputOf(output, position, {}), output.sampling, vocab_size);
    case OutputKind::kLogits:
      return std::nullopt;
    case OutputKind::kScore:
      return QuestionForScore(output.target);
  }
  return std::nullopt;
}

absl::StatusOr<bool> MakeRowResult(const OutputRow& output, int32_t position, int32_t vocab_size,
                                   const LogitQuestion& question, const LogitSummary& summary,
                                   RowResult& result) {
  result = {};
  result.row = output.row;
  if (output.kind == OutputKind::kScore) {
    const std::optional<float> logprob = LogProbability(summary);
    result.logprob = logprob.value_or(0);
    return logprob.has_value();
  }
  ASSIGN_OR_RETURN(
      std::optional<SampledToken> sampled,
      Sample(summary, question, InputOf(output, position, {}), output.sampling, vocab_size));
  if (sampled.has_value()) Take(*std::move(sampled), result);
  return sampled.has_value();
}

}  // namespace baton::engine
