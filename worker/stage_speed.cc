#include "worker/stage_speed.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace baton::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kManyRows = 8;
constexpr int32_t kPromptRows = 64;
constexpr auto kTimeForOneKind = std::chrono::milliseconds(300);

// `rows` rows in sequences of `rows_each`, each from its first position on; the last row of each is
// sampled, as in decode.
engine::MicroBatch MakeBatch(const engine::MicroBatchLimits& limits, int32_t rows,
                             int32_t rows_each) {
  engine::MicroBatch batch;
  for (int32_t row = 0; row < rows; ++row)
    batch.tokens.push_back((row * 7919 + 13) % limits.vocab_size);
  const int32_t blocks_each =
      (rows_each + engine::kKvBlockPositions - 1) / engine::kKvBlockPositions;
  for (int32_t first = 0; first < rows; first += rows_each) {
    engine::SequenceRows& sequence = batch.sequences.emplace_back();
    sequence.num_rows = std::min(rows_each, rows - first);
    for (int32_t block = 0; block < blocks_each; ++block) {
      sequence.kv_blocks.push_back(first / rows_each * blocks_each + block);
    }
    engine::OutputRow& output = batch.outputs.emplace_back();
    output.row = first + sequence.num_rows - 1;
    output.sampling.temperature = 0;
  }
  return batch;
}

// What another stage would have sent: any numbers of a usual size.
engine::HiddenStates MakeHidden(int32_t rows, int32_t cols) {
  engine::HiddenStates hidden{rows, cols, std::vector<float>(static_cast<size_t>(rows) * cols)};
  for (size_t i = 0; i < hidden.values.size(); ++i)
    hidden.values[i] = static_cast<float>(i * 37 % 101) / 101.0f - 0.5f;
  return hidden;
}

// The mean of steps over some time: one that may run for a part of the time only takes many fast
// steps and a few slow ones. The first, which touches the weights, does not count.
absl::StatusOr<double> StepMicroseconds(StageRunner* runner, const engine::MicroBatch& batch) {
  const engine::HiddenStates hidden = MakeHidden(batch.rows(), runner->hidden_size());
  std::vector<double> times;
  const Clock::time_point end = Clock::now() + kTimeForOneKind;
  while (times.size() < 2 || Clock::now() < end) {
    engine::StageOutput output;
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(runner->Run(batch, runner->first() ? nullptr : &hidden, &output));
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return std::accumulate(times.begin() + 1, times.end(), 0.0) /
         static_cast<double>(times.size() - 1);
}

}  // namespace

absl::StatusOr<wire::StageSpeed> MeasureStageSpeed(StageRunner* runner) {
  const engine::MicroBatchLimits limits = runner->limits();
  wire::StageSpeed speed;
  const int32_t many = std::min({kManyRows, limits.max_rows, limits.num_kv_blocks});
  const int32_t prompt = std::min({kPromptRows, limits.max_rows, limits.context_length,
                                   limits.num_kv_blocks * engine::kKvBlockPositions});
  ASSIGN_OR_RETURN(speed.one_row_us, StepMicroseconds(runner, MakeBatch(limits, 1, 1)));
  ASSIGN_OR_RETURN(speed.many_rows_us, StepMicroseconds(runner, MakeBatch(limits, many, 1)));
  ASSIGN_OR_RETURN(speed.prompt_us, StepMicroseconds(runner, MakeBatch(limits, prompt, prompt)));
  speed.many_rows = many;
  speed.prompt_rows = prompt;
  return speed;
}

absl::StatusOr<double> MeasureDecodeStep(StageRunner* runner) {
  return StepMicroseconds(runner, MakeBatch(runner->limits(), 1, 1));
}

}  // namespace baton::worker
