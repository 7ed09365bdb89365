#include "engine/runtime/output_head.h"

#include <algorithm>

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

void OutputHead::ComputeLogits(const BatchContext& batch, std::span<const OutputRow> outputs,
                               Activations hidden) {
  const HyperParams& h = batch.hyperparams;
  const auto rows = static_cast<int32_t>(outputs.size());
  const Activations normed = batch.scratch.View(Buffer::kOutputNormed, rows, h.hidden_size);
  GatherNormalized(batch, weights_, outputs, hidden, normed);

  const Activations logits = batch.scratch.View(Buffer::kLogits, rows, h.vocab_size);
  const MatMulTarget target = {&weights_.At(TensorRole::kOutput),
                               weights_.Find(TensorRole::kOutputBias), logits};
  batch.backend.MatMul(normed, {&target, 1});
  if (h.logit_scale != 1.0) batch.backend.Scale(logits, static_cast<float>(h.logit_scale));
  if (h.logit_softcap > 0) batch.backend.SoftCap(logits, static_cast<float>(h.logit_softcap));
  logits_.resize(static_cast<size_t>(kOutputRows) * h.vocab_size);
  batch.backend.ToHost(logits, logits_.data());
}

absl::Status OutputHead::Run(const BatchContext& batch, const MicroBatch& micro_batch,
                             Activations hidden, std::vector<RowResult>& results) {
  const size_t vocab_size = batch.hyperparams.vocab_size;
  const std::span<const OutputRow> outputs = micro_batch.outputs;
  results.resize(outputs.size());
  for (size_t begin = 0; begin < outputs.size(); begin += kOutputRows) {
    const auto some = outputs.subspan(begin, std::min<size_t>(kOutputRows, outputs.size() - begin));
    ComputeLogits(batch, some, hidden);
    for (size_t i = 0; i < some.size(); ++i) {
      const std::span<const float> logits(logits_.data() + i * vocab_size, vocab_size);
      const int32_t position = batch.layout.positions[some[i].row];
      RETURN_IF_ERROR(MakeRowResult(some[i], position, logits, results[begin + i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
