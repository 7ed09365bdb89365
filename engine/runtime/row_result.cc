#include "engine/runtime/row_result.h"

#include "engine/sampling/sampler.h"

namespace baton::engine {
namespace {

absl::Status SampleRow(const OutputRow& output, int32_t position, std::span<const float> logits,
                       RowResult& result) {
  const SamplingInput input{.logits = logits,
                            .position = static_cast<uint64_t>(position) + 1,
                            .recent = output.recent,
                            .output_counts = output.output_counts,
                            .allowed = output.allowed};
  ASSIGN_OR_RETURN(SampledToken sampled, Sample(input, output.sampling));
  result.token = sampled.id;
  result.logprob = sampled.logprob;
  result.top = std::move(sampled.top);
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeRowResult(const OutputRow& output, int32_t position, std::span<const float> logits,
                           RowResult& result) {
  result = {};
  result.row = output.row;
  switch (output.kind) {
    case OutputKind::kSample:
      return SampleRow(output, position, logits, result);
    case OutputKind::kLogits:
      result.logits.assign(logits.begin(), logits.end());
      return absl::OkStatus();
    case OutputKind::kScore:
      result.logprob = LogProbability(logits, output.target);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
