// The unit of work of the pipeline, as a value: all that a stage needs beside its weights and KV
// blocks.
//
// Made by the scheduler, passed from stage to stage unchanged, so stages keep no state per sequence
// but KV blocks. No owner, no threads: plain data. Its invariants are checked once, where it enters
// a process (CheckMicroBatch).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/sampling/sampling_params.h"
#include "engine/sampling/token_logprob.h"

namespace baton::engine {

inline constexpr int32_t kKvBlockPositions = 32;  // positions in a KV block

// Consecutive rows of one sequence in a micro-batch.
struct SequenceRows {
  uint64_t sequence_id = 0;    // for logs and traces only
  int32_t first_position = 0;  // position of the first row
  int32_t num_rows = 0;
  std::vector<int32_t>
      kv_blocks;  // block ids, in order of position; cover [0, first_position + num_rows)
};

enum class OutputKind : uint8_t {
  kSample,  // draw a token
  kLogits,  // the whole row of logits
  kScore    // the log-probability of `target`
};

// A row whose output somebody wants. Rows without one end at the last layer.
struct OutputRow {
  int32_t row = 0;  // index into MicroBatch::tokens
  OutputKind kind = OutputKind::kSample;
  TokenId target = kNoToken;  // kScore only
  SamplingParams sampling;
  std::vector<TokenId> recent;  // last 64 tokens, oldest first (repetition penalty)
  std::vector<std::pair<TokenId, int32_t>>
      output_counts;              // tokens of the output so far (presence, frequency)
  std::vector<uint32_t> allowed;  // grammar mask, a bit a token; empty: all
};

struct MicroBatch {
  uint64_t id = 0;
  uint64_t epoch = 0;                   // of the pipeline; results of an older one are dropped
  std::vector<TokenId> tokens;          // [rows]
  std::vector<SequenceRows> sequences;  // in order of rows; their num_rows sum to rows
  std::vector<OutputRow> outputs;       // in order of rows
  // Only the layers before this one: the stage that has the last of them answers, without outputs.
  // 0: all.
  int32_t end_layer = 0;

  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }
};

// What bounds a micro-batch that came from outside.
struct MicroBatchLimits {
  int32_t vocab_size = 0;
  int32_t context_length = 0;  // positions a sequence may have
  int32_t num_kv_blocks = 0;
  int32_t max_rows = 0;
};
// InvalidArgument names the first field that is out of range.
absl::Status CheckMicroBatch(const MicroBatch& batch, const MicroBatchLimits& limits);

// Activations between stages. [rows, cols], row-major.
struct HiddenStates {
  int32_t rows = 0;
  int32_t cols = 0;
  std::vector<float> values;
};

// The answer to one OutputRow.
struct RowResult {
  int32_t row = 0;
  TokenId token = kNoToken;       // kSample
  float logprob = 0;              // kSample if asked, kScore
  std::vector<TokenLogprob> top;  // the best, if asked
  std::vector<float> logits;      // kLogits: [vocab_size]
};

// What a stage makes of a micro-batch: hidden states for the next one or, at the last stage,
// results.
struct StageOutput {
  HiddenStates hidden;
  std::vector<RowResult> results;
};

}  // namespace baton::engine
