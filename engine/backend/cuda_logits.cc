// Rows of logits stay on the device; what sampling asks about them comes back.
#include <algorithm>
#include <cstring>

#include "engine/backend/cuda_backend.h"

namespace baton::engine {
namespace {

using kernels::CudaBestLogit;
using kernels::CudaSummaryArgs;

static_assert(kMostBestLogits <= kernels::kMostCudaBest);

using Questions = std::span<const std::optional<LogitQuestion>>;

// Enough for every row.
CudaSummaryArgs ArgsFor(Activations logits, Questions questions) {
  CudaSummaryArgs args;
  args.logits = {logits.data, logits.rows, logits.cols, logits.stride};
  for (const auto& question : questions) {
    if (!question.has_value()) continue;
    args.count = std::max(args.count, question->best);
    args.num_asked = std::max(args.num_asked, static_cast<int32_t>(question->ids.size()));
    args.weight_sums |= question->weight_sum;
  }
  return args;
}

// [rows, num_asked]; token 0 where a row asks for fewer.
std::vector<int32_t> AskedIds(Questions questions, int32_t num_asked) {
  std::vector<int32_t> ids(questions.size() * static_cast<size_t>(num_asked), 0);
  for (size_t i = 0; i < questions.size(); ++i) {
    if (questions[i].has_value())
      std::ranges::copy(questions[i]->ids, ids.begin() + static_cast<int64_t>(i) * num_asked);
  }
  return ids;
}

LogitSummary Read(const float* words, const CudaSummaryArgs& args, const LogitQuestion& question) {
  kernels::CudaSummaryHead head;
  std::memcpy(&head, words, sizeof(head));
  LogitSummary summary;
  summary.sound = head.found >= 0;
  if (!summary.sound) return summary;
  summary.all = head.found < args.count || args.count >= args.logits.cols;
  summary.weight_sum = head.weight_sum;
  words += sizeof(head) / sizeof(float);
  summary.best.resize(static_cast<size_t>(head.found));
  for (size_t i = 0; i < summary.best.size(); ++i) {
    CudaBestLogit best;
    std::memcpy(&best, words + 2 * i, sizeof(best));
    summary.best[i] = {best.id, best.logit};
  }
  words += int64_t{2} * args.count;
  summary.asked.assign(words, words + question.ids.size());
  return summary;
}

}  // namespace

std::vector<LogitSummary> CudaBackend::SummarizeLogits(Activations logits, Questions questions) {
  std::vector<LogitSummary> summaries(questions.size());
  CudaSummaryArgs args = ArgsFor(logits, questions);
  if (!Ready() || args.count == 0) return summaries;

  std::shared_ptr<DeviceBuffer> asked;
  if (args.num_asked > 0) {
    const std::vector<int32_t> ids = AskedIds(questions, args.num_asked);
    asked = Lend(ids.data(), ids.size() * sizeof(int32_t));
    if (asked != nullptr) args.asked = static_cast<const int32_t*>(asked->data());
  }
  const int64_t keys = kernels::CudaSummaryKeys(logits.rows, logits.cols, args.count);
  const int64_t words = kernels::CudaSummaryWords(args.count, args.num_asked);
  args.keys = Reserve<uint64_t>(summary_keys_, static_cast<size_t>(keys));
  args.out = {Reserve<float>(summaries_, static_cast<size_t>(logits.rows * words)), logits.rows,
              static_cast<int32_t>(words), words};
  if (!status_.ok()) return summaries;
  cuda_.summarize_logits(args, stream_);

  std::vector<float> host(static_cast<size_t>(logits.rows * words));
  ToHost({args.out.data, logits.rows, args.out.cols, words}, host.data());
  if (!status_.ok()) return summaries;
  for (size_t i = 0; i < questions.size(); ++i) {
    if (questions[i].has_value())
      summaries[i] = Read(host.data() + static_cast<int64_t>(i) * words, args, *questions[i]);
  }
  return summaries;
}

}  // namespace baton::engine
