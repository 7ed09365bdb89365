#include "coordinator/generation.h"

#include <functional>
#include <iterator>
#include <utility>

#include "engine/base/steady_time.h"

namespace baton::coordinator {

std::string_view FinishReasonName(FinishReason reason) {
  constexpr std::string_view kNames[] = {"none", "stop", "length", "cancelled", "error"};
  return kNames[static_cast<size_t>(reason)];
}

uint64_t ClientOf(std::string_view key, std::string_view address) {
  return std::hash<std::string_view>()(key.empty() ? address : key);
}

void Append(GenerationChunk chunk, GenerationChunk* to) {
  if (!chunk.request_id.empty()) to->request_id = std::move(chunk.request_id);
  if (!chunk.prompt_tokens.empty()) to->prompt_tokens = std::move(chunk.prompt_tokens);
  to->text += chunk.text;
  std::move(chunk.tokens.begin(), chunk.tokens.end(), std::back_inserter(to->tokens));
  if (!chunk.last()) return;
  to->finish = chunk.finish;
  to->status = std::move(chunk.status);
  to->timings = chunk.timings;
  to->stages = std::move(chunk.stages);
  to->stop_string = std::move(chunk.stop_string);
}

void GenerationQueue::Push(GenerationChunk chunk) {
  {
    const std::lock_guard lock(mutex_);
    if (pending_) {
      Append(std::move(chunk), &*pending_);
    } else {
      pending_ = std::move(chunk);
    }
  }
  arrived_.notify_one();
}

std::optional<GenerationChunk> GenerationQueue::Next(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return pending_.has_value() || taken_last_; };
  if (deadline == absl::InfiniteFuture()) {
    arrived_.wait(lock, ready);
  } else {
    arrived_.wait_until(lock, ToSteadyClock(deadline), ready);
  }
  std::optional<GenerationChunk> chunk = std::exchange(pending_, std::nullopt);
  if (chunk && chunk->last()) taken_last_ = true;
  return chunk;
}

}  // namespace baton::coordinator
