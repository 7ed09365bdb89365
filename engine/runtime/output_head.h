// What the last stage does with the rows whose output is wanted: final norm, logits, and an answer
// to each row.
//
// Owner: a stage. One thread.
#pragma once

#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/runtime/layer_context.h"
#include "engine/runtime/micro_batch.h"

namespace baton::engine {

class OutputHead {
 public:
  explicit OutputHead(const WeightSet& weights) : weights_(weights) {}

  // Whether each row wants output. Then logits follow from the rows as the layers do, and are part
  // of the work that a backend may repeat: ComputeLogits comes before Run, which does it otherwise.
  static bool WantsAllRows(const MicroBatch& micro_batch);
  // Of some wanted rows, in backend memory.
  Activations ComputeLogits(const BatchContext& batch, std::span<const OutputRow> outputs,
                            Activations hidden) const;

  // hidden [rows, hidden_size] -> a result for each of the batch's outputs.
  absl::Status Run(const BatchContext& batch, const MicroBatch& micro_batch, Activations hidden,
                   std::vector<RowResult>& results);

 private:
  Activations Logits(const BatchContext& batch, size_t rows) const;
  // The answers that a device's summaries give, where it makes any; true for those. The other rows
  // are fetched.
  absl::StatusOr<std::vector<bool>> AnswerFromSummaries(const BatchContext& batch,
                                                        std::span<const OutputRow> outputs,
                                                        Activations logits,
                                                        std::span<RowResult> results) const;
  absl::Status Answer(const BatchContext& batch, std::span<const OutputRow> outputs,
                      Activations logits, std::span<RowResult> results);

  const WeightSet& weights_;
  std::vector<float> logits_;  // [rows fetched at a time, vocab_size]
};

}  // namespace baton::engine
