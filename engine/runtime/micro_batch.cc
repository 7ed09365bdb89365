#include "engine/runtime/micro_batch.h"

#include <algorithm>
#include <string_view>

#include "engine/sampling/sampler.h"

namespace baton::engine {
namespace {

constexpr int32_t kMaxTopLogprobs = 64;

absl::Status CheckTokenId(std::string_view what, TokenId id, const MicroBatchLimits& limits) {
  if (id >= 0 && id < limits.vocab_size) return absl::OkStatus();
  return InvalidArgument("micro-batch: {} {}, expected 0 to {}", what, id, limits.vocab_size - 1);
}

absl::Status CheckEnd(const MicroBatch& batch) {
  if (batch.end_layer == 0 || (batch.end_layer > 0 && batch.outputs.empty()))
    return absl::OkStatus();
  return InvalidArgument("micro-batch: {} outputs, but it ends before layer {}",
                         batch.outputs.size(), batch.end_layer);
}

absl::Status CheckTokens(const MicroBatch& batch, const MicroBatchLimits& limits) {
  if (batch.tokens.empty() || batch.tokens.size() > static_cast<size_t>(limits.max_rows)) {
    return InvalidArgument("micro-batch: {} rows, expected 1 to {}", batch.tokens.size(),
                           limits.max_rows);
  }
  for (const TokenId id : batch.tokens) RETURN_IF_ERROR(CheckTokenId("token", id, limits));
  return absl::OkStatus();
}

absl::Status CheckPositions(const SequenceRows& rows, const MicroBatchLimits& limits) {
  const int64_t end = static_cast<int64_t>(rows.first_position) + rows.num_rows;
  if (rows.num_rows <= 0)
    return InvalidArgument("micro-batch: a sequence of {} rows, expected some", rows.num_rows);
  if (rows.first_position < 0 || end > limits.context_length) {
    return InvalidArgument("micro-batch: positions [{}, {}), expected within the context [0, {})",
                           rows.first_position, end, limits.context_length);
  }
  const int64_t blocks = (end + kKvBlockPositions - 1) / kKvBlockPositions;
  const int64_t most =
      (static_cast<int64_t>(limits.context_length) + kKvBlockPositions - 1) / kKvBlockPositions;
  const int64_t given = static_cast<int64_t>(rows.kv_blocks.size());
  if (given < blocks || given > most) {
    return InvalidArgument("micro-batch: {} KV blocks for positions up to {}, expected {} to {}",
                           given, end, blocks, most);
  }
  return absl::OkStatus();
}

// Ids in range and, so that no two positions share a place, none twice in a sequence nor written by
// two.
absl::Status CheckBlocks(const SequenceRows& rows, const MicroBatchLimits& limits,
                         std::vector<int32_t>& written) {
  for (const int32_t id : rows.kv_blocks) {
    if (id < 0 || id >= limits.num_kv_blocks) {
      return InvalidArgument("micro-batch: KV block {}, expected 0 to {}", id,
                             limits.num_kv_blocks - 1);
    }
  }
  std::vector<int32_t> sorted = rows.kv_blocks;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return InvalidArgument("micro-batch: KV block {} twice in a sequence", *twice);
  }
  const int32_t first = rows.first_position / kKvBlockPositions;
  const int32_t last = (rows.first_position + rows.num_rows - 1) / kKvBlockPositions;
  written.insert(written.end(), rows.kv_blocks.begin() + first, rows.kv_blocks.begin() + last + 1);
  return absl::OkStatus();
}

absl::Status CheckSequences(const MicroBatch& batch, const MicroBatchLimits& limits) {
  int64_t rows = 0;
  std::vector<int32_t> written;
  for (const SequenceRows& sequence : batch.sequences) {
    RETURN_IF_ERROR(CheckPositions(sequence, limits));
    RETURN_IF_ERROR(CheckBlocks(sequence, limits, written));
    rows += sequence.num_rows;
  }
  if (rows != batch.rows()) {
    return InvalidArgument("micro-batch: {} rows in sequences, expected {}, one a token", rows,
                           batch.rows());
  }
  std::ranges::sort(written);
  if (const auto twice = std::ranges::adjacent_find(written); twice != written.end()) {
    return InvalidArgument("micro-batch: KV block {} written by two sequences", *twice);
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const OutputRow& output, const MicroBatchLimits& limits) {
  const SamplingParams& params = output.sampling;
  RETURN_IF_ERROR(Prefixed(ValidateSamplingParams(params), "micro-batch"));
  if (params.top_logprobs < -1 || params.top_logprobs > kMaxTopLogprobs) {
    return InvalidArgument("micro-batch: top_logprobs {}, expected -1 to {}", params.top_logprobs,
                           kMaxTopLogprobs);
  }
  if (params.logit_bias.size() > static_cast<size_t>(limits.vocab_size)) {
    return InvalidArgument("micro-batch: {} logit biases, expected up to {}",
                           params.logit_bias.size(), limits.vocab_size);
  }
  for (const auto& [id, bias] : params.logit_bias) {
    RETURN_IF_ERROR(CheckTokenId("logit bias of token", id, limits));
  }
  return absl::OkStatus();
}

absl::Status CheckHistory(const OutputRow& output, const MicroBatchLimits& limits) {
  if (output.recent.size() > size_t{kRepetitionWindow}) {
    return InvalidArgument("micro-batch: {} recent tokens, expected up to {}", output.recent.size(),
                           size_t{kRepetitionWindow});
  }
  for (const TokenId id : output.recent) RETURN_IF_ERROR(CheckTokenId("recent token", id, limits));
  if (output.output_counts.size() > static_cast<size_t>(limits.vocab_size)) {
    return InvalidArgument("micro-batch: counts of {} tokens, expected up to {}",
                           output.output_counts.size(), limits.vocab_size);
  }
  for (const auto& [id, count] : output.output_counts) {
    RETURN_IF_ERROR(CheckTokenId("count of token", id, limits));
    if (count <= 0)
      return InvalidArgument("micro-batch: token {} counted {} times, expected above 0", id, count);
  }
  const size_t words = (static_cast<size_t>(limits.vocab_size) + 31) / 32;
  if (!output.allowed.empty() && output.allowed.size() != words) {
    return InvalidArgument("micro-batch: a mask of {} words, expected none or {}",
                           output.allowed.size(), words);
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const OutputRow& output, const MicroBatchLimits& limits) {
  switch (output.kind) {
    case OutputKind::kSample:
      RETURN_IF_ERROR(CheckSampling(output, limits));
      return CheckHistory(output, limits);
    case OutputKind::kLogits:
      return absl::OkStatus();
    case OutputKind::kScore:
      return CheckTokenId("target", output.target, limits);
  }
  return InvalidArgument("micro-batch: output kind {}, expected sample, logits or score",
                         static_cast<int>(output.kind));
}

absl::Status CheckOutputs(const MicroBatch& batch, const MicroBatchLimits& limits) {
  int32_t previous = -1;
  for (const OutputRow& output : batch.outputs) {
    if (output.row <= previous || output.row >= batch.rows()) {
      return InvalidArgument("micro-batch: output row {}, expected rising ones up to {}",
                             output.row, batch.rows() - 1);
    }
    previous = output.row;
    RETURN_IF_ERROR(CheckOutput(output, limits));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMicroBatch(const MicroBatch& batch, const MicroBatchLimits& limits) {
  RETURN_IF_ERROR(CheckTokens(batch, limits));
  RETURN_IF_ERROR(CheckSequences(batch, limits));
  RETURN_IF_ERROR(CheckEnd(batch));
  return CheckOutputs(batch, limits);
}

}  // namespace baton::engine
