#include "engine/runtime/output_head.h"

#include <algorithm>
#include <optional>

#include "engine/runtime/norm.h"
#include "engine/runtime/row_result.h"

namespace baton::engine {
namespace {

// Normalizes the wanted rows into consecutive ones: runs of neighbours at once.
void GatherNormalized(const BatchContext& batch, const WeightSet& weights,
                      std::span<const OutputRow> outputs, Activations hidden, Activations normed) {
  for (size_t begin = 0; begin < outputs.size();) {
    size_t end = begin + 1;
    while (end < outputs.size() && outputs[end].row == outputs[end - 1].row + 1) ++end;
    const auto count = static_cast<int32_t>(end - begin);
    Normalize(batch, weights, TensorRole::kOutputNorm, TensorRole::kOutputNormBias,
              hidden.Rows(outputs[begin].row, count),
              normed.Rows(static_cast<int32_t>(begin), count));
    begin = end;
  }
}

}  // namespace

bool OutputHead::WantsAllRows(const MicroBatch& micro_batch) {
  const std::vector<OutputRow>& outputs = micro_batch.outputs;
  if (outputs.size() > kOutputRows || std::ssize(outputs) != micro_batch.rows()) return false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].row != static_cast<int32_t>(i)) return false;
  }
  return true;
}

Activations OutputHead::Logits(const BatchContext& batch, size_t rows) const {
  return batch.scratch.View(Buffer::kLogits, static_cast<int32_t>(rows),
                            batch.hyperparams.vocab_size);
}

Activations OutputHead::ComputeLogits(const BatchContext& batch, std::span<const OutputRow> outputs,
                                      Activations hidden) const {
  const HyperParams& h = batch.hyperparams;
  const auto rows = static_cast<int32_t>(outputs.size());
  const Activations normed = batch.scratch.View(Buffer::kOutputNormed, rows, h.hidden_size);
  GatherNormalized(batch, weights_, outputs, hidden, normed);

  const Activations logits = Logits(batch, outputs.size());
  const MatMulTarget target = {&weights_.At(TensorRole::kOutput),
                               weights_.Find(TensorRole::kOutputBias), logits};
  batch.backend.MatMul(normed, {&target, 1});
  if (h.logit_scale != 1.0) batch.backend.Scale(logits, static_cast<float>(h.logit_scale));
  if (h.logit_softcap > 0) batch.backend.SoftCap(logits, static_cast<float>(h.logit_softcap));
  return logits;
}

absl::StatusOr<std::vector<bool>> OutputHead::AnswerFromSummaries(
    const BatchContext& batch, std::span<const OutputRow> outputs, Activations logits,
    std::span<RowResult> results) const {
  std::vector<bool> answered(outputs.size(), false);
  if (!batch.backend.summarizes_logits()) return answered;
  std::vector<std::optional<LogitQuestion>> questions;
  for (const OutputRow& output : outputs) {
    questions.push_back(
        QuestionFor(output, batch.layout.positions[output.row], batch.hyperparams.vocab_size));
  }
  const std::vector<LogitSummary> summaries = batch.backend.SummarizeLogits(logits, questions);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!questions[i].has_value()) continue;
    ASSIGN_OR_RETURN(answered[i], MakeRowResult(outputs[i], batch.layout.positions[outputs[i].row],
                                                batch.hyperparams.vocab_size, *questions[i],
                                                summaries[i], results[i]));
  }
  return answered;
}

absl::Status OutputHead::Answer(const BatchContext& batch, std::span<const OutputRow> outputs,
                                Activations logits, std::span<RowResult> results) {
  ASSIGN_OR_RETURN(const std::vector<bool> answered,
                   AnswerFromSummaries(batch, outputs, logits, results));
  const auto vocab_size = static_cast<size_t>(batch.hyperparams.vocab_size);
  for (size_t begin = 0; begin < outputs.size();) {
    size_t end = begin;
    while (end < outputs.size() && !answered[end]) ++end;
    const auto count = static_cast<int32_t>(end - begin);
    if (count > 0) {
      logits_.resize(std::max(logits_.size(), count * vocab_size));
      batch.backend.ToHost(logits.Rows(static_cast<int32_t>(begin), count), logits_.data());
    }
    for (size_t i = begin; i < end; ++i) {
      RETURN_IF_ERROR(MakeRowResult(outputs[i], batch.layout.positions[outputs[i].row],
                                    {logits_.data() + (i - begin) * vocab_size, vocab_size},
                                    results[i]));
    }
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::Status OutputHead::Run(const BatchContext& batch, const MicroBatch& micro_batch,
                             Activations hidden, std::vector<RowResult>& results) {
  const std::span<const OutputRow> outputs = micro_batch.outputs;
  results.resize(outputs.size());
  if (WantsAllRows(micro_batch))
    return Answer(batch, outputs, Logits(batch, outputs.size()), results);
  for (size_t begin = 0; begin < outputs.size(); begin += kOutputRows) {
    const auto some = outputs.subspan(begin, std::min<size_t>(kOutputRows, outputs.size() - begin));
    const Activations logits = ComputeLogits(batch, some, hidden);
    RETURN_IF_ERROR(Answer(batch, some, logits, std::span(results).subspan(begin, some.size())));
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
