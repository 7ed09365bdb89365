#include "cli/answer.h"

#include <atomic>
#include <memory>

#include "cli/interrupt.h"

namespace baton::cli {

using coordinator::FinishReason;
using coordinator::GenerationChunk;

absl::StatusOr<GenerationChunk> ReadAnswer(
    coordinator::LlmService& service, const coordinator::GenerationRequest& request,
    const std::function<absl::Status(std::string_view)>& on_text, InterruptWatch& watch) {
  const auto queue = std::make_shared<coordinator::GenerationQueue>();
  ASSIGN_OR_RETURN(const uint64_t id, service.Generate(request, [queue](GenerationChunk chunk) {
    queue->Push(std::move(chunk));
  }));
  watch.OnSignal([&service, id] { service.Cancel(id); });
  GenerationChunk answer;
  absl::Status written;
  while (auto chunk = queue->Next()) {
    // A reader that is gone ends the answer, but its last chunk is still waited for.
    if (written.ok() && !chunk->text.empty()) {
      written = on_text(chunk->text);
      if (!written.ok()) service.Cancel(id);
    }
    const bool last = chunk->last();
    Append(*std::move(chunk), &answer);
    if (last) break;
  }
  watch.OnSignal(nullptr);
  RETURN_IF_ERROR(written);
  if (answer.finish == FinishReason::kError) return answer.status;
  return answer;
}

std::string LayersText(engine::LayerRange layers) {
  return layers.size() <= 0 ? "-" : fmt::format("{}-{}", layers.begin, layers.end - 1);
}

}  // namespace baton::cli
