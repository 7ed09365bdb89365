// Makes text of a sequence's tokens, as they come: characters that are not complete and text that
// may become a stop string are held back, and the end is found.
//
// Owner: the scheduler, by way of its sequence. Lives on the pipeline's thread.
#pragma once

#include <absl/time/time.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/generation.h"
#include "coordinator/open_requests.h"
#include "coordinator/sequence.h"
#include "engine/base/steady_time.h"
#include "engine/text/stop_strings.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"

namespace baton::coordinator {

struct AnswerOptions {
  std::string request_id;
  std::vector<engine::TokenId> prompt;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int32_t first_token = 0;         // of the answer, to send; the client has those before
  OpenRequests* record = nullptr;  // is told how far the answer is; outlives it
  double load_ms = 0;
  const engine::Tokenizer* tokenizer = nullptr;  // outlives the answer
  std::function<std::vector<StageOfWorker>()> stages;
  GenerationSink sink;
};

class Answer : public SequenceObserver {
 public:
  explicit Answer(AnswerOptions options);

  // What is known of the answer from before; false: it was whole already.
  bool Restore(std::span<const engine::TokenId> tokens);

  void OnStarted(int32_t cached_tokens) override;
  bool OnResult(int32_t position, const engine::RowResult& result) override;
  void Deliver() override;
  void OnEnd(EndReason reason, const absl::Status& status) override;

 private:
  bool Add(const engine::RowResult& result);
  void Send(GenerationChunk chunk);
  GenerationTimings Timings() const;

  AnswerOptions options_;
  engine::Utf8Stream utf8_;
  engine::StopStrings stop_;
  std::vector<GenerationChunk> undelivered_;
  bool sent_first_ = false;
  int32_t num_tokens_ = 0;
  int32_t cached_tokens_ = 0;
  absl::Time created_ = SteadyNow();
  absl::Time started_ = absl::InfiniteFuture();
  absl::Time first_token_ = absl::InfiniteFuture();
  absl::Time last_token_ = absl::InfiniteFuture();
};

}  // namespace baton::coordinator
