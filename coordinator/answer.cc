#include "coordinator/answer.h"

#include <utility>

#include "engine/base/steady_time.h"

namespace baton::coordinator {

Answer::Answer(AnswerOptions options) : options_(std::move(options)), stop_(options_.stop) {}

void Answer::Send(GenerationChunk chunk) {
  if (!sent_first_) {
    chunk.request_id = options_.request_id;
    chunk.prompt_tokens = options_.prompt;
    sent_first_ = true;
  }
  options_.sink(std::move(chunk));
}

void Answer::OnStarted(int32_t cached_tokens) {
  if (started_ != absl::InfiniteFuture()) return;  // a replay: only the first time counts
  started_ = SteadyNow();
  cached_tokens_ = cached_tokens;
  Send({});
}

bool Answer::Restore(std::span<const engine::TokenId> tokens) {
  for (const engine::TokenId token : tokens) {
    engine::RowResult result;
    result.token = token;
    if (!Add(result)) return false;
  }
  Deliver();
  return true;
}

bool Answer::OnResult(int32_t /*position*/, const engine::RowResult& result) {
  if (options_.record != nullptr) options_.record->Answered(options_.request_id, result.token);
  return Add(result);
}

bool Answer::Add(const engine::RowResult& result) {
  last_token_ = SteadyNow();
  if (num_tokens_++ == 0) first_token_ = last_token_;
  const bool end = !options_.ignore_eos && options_.tokenizer->IsEndOfGeneration(result.token);
  GeneratedToken token;
  token.id = result.token;
  token.logprob = result.logprob;
  token.top = result.top;
  if (!end) token.bytes = options_.tokenizer->TokenBytes(result.token, /*special=*/false);
  GenerationChunk chunk;
  chunk.text = stop_.Append(utf8_.Append(token.bytes));
  chunk.tokens.push_back(std::move(token));
  if (num_tokens_ > options_.first_token) undelivered_.push_back(std::move(chunk));
  return !end && !stop_.stopped();
}

void Answer::Deliver() {
  for (GenerationChunk& chunk : undelivered_) Send(std::move(chunk));
  undelivered_.clear();
}

void Answer::OnEnd(EndReason reason, const absl::Status& status) {
  Deliver();
  if (options_.record != nullptr) {
    const bool may_go_on = absl::IsCancelled(status) || absl::IsUnavailable(status);
    may_go_on ? options_.record->Abandoned(options_.request_id)
              : options_.record->Ended(options_.request_id);
  }
  GenerationChunk chunk;
  if (!stop_.stopped()) chunk.text = stop_.Append(utf8_.Flush());
  if (!stop_.stopped()) chunk.text += stop_.Flush();
  if (reason == EndReason::kError) {
    chunk.finish = absl::IsCancelled(status) ? FinishReason::kCancelled : FinishReason::kError;
    chunk.status = status;
  } else {
    const bool stopped = reason == EndReason::kStopped || stop_.stopped();
    chunk.finish = stopped ? FinishReason::kStop : FinishReason::kLength;
  }
  chunk.stop_string = stop_.matched();
  chunk.timings = Timings();
  chunk.stages = options_.stages();
  Send(std::move(chunk));
}

GenerationTimings Answer::Timings() const {
  const auto milliseconds = [](absl::Time begin, absl::Time end) {
    if (begin == absl::InfiniteFuture() || end == absl::InfiniteFuture()) return 0.0;
    return absl::ToDoubleMilliseconds(end - begin);
  };
  GenerationTimings timings;
  timings.load_ms = options_.load_ms;
  timings.queue_ms = milliseconds(created_, started_);
  timings.cached_tokens = cached_tokens_;
  if (num_tokens_ > 0) {
    timings.prefill_tokens = static_cast<int32_t>(options_.prompt.size()) - cached_tokens_;
    timings.prefill_ms = milliseconds(started_, first_token_);
    timings.decode_tokens = num_tokens_ - 1;
    timings.decode_ms = milliseconds(first_token_, last_token_);
  }
  return timings;
}

}  // namespace baton::coordinator
