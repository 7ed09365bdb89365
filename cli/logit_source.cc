#include "cli/logit_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>

#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "cli/remote_service.h"
#include "cli/vocabulary_model.h"
#include "engine/arch/hyperparams.h"
#include "engine/sampling/sampler.h"

namespace baton::cli {
namespace {

using engine::TokenId;

constexpr size_t kRowsAtOnce = 64;  // of logits in memory
constexpr absl::Duration kFetchTimeout = absl::Seconds(30);
constexpr auto kCancelAfter = std::chrono::milliseconds(100);

class LocalLogits : public LogitSource {
 public:
  static absl::StatusOr<std::unique_ptr<LogitSource>> Open(const ModelFlags& flags) {
    ASSIGN_OR_RETURN(auto file, OpenModelFile(flags.model));
    ASSIGN_OR_RETURN(auto tokenizer, MakeTokenizer(*file));
    return std::make_unique<LocalLogits>(flags, std::move(file), std::move(tokenizer));
  }

  LocalLogits(const ModelFlags& flags, std::unique_ptr<engine::GgufModel> file,
              std::unique_ptr<engine::Tokenizer> tokenizer)
      : flags_(flags), file_(std::move(file)), tokenizer_(std::move(tokenizer)) {}

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text) override {
    return tokenizer_->Encode(text, {.parse_special = false, .add_special = true});
  }
  absl::StatusOr<std::optional<TokenId>> Bos() override {
    return tokenizer_->adds_bos() ? std::optional(tokenizer_->bos()) : std::nullopt;
  }

  absl::Status Prepare(int32_t num_tokens) override {
    const auto hyperparams = engine::ParseHyperParams(*file_);
    if (!hyperparams.ok()) return AsBadData(hyperparams.status());
    const int32_t context = ContextOf(flags_, hyperparams->context_length, num_tokens);
    ASSIGN_OR_RETURN(model_, LoadLocalModel(std::move(file_), flags_, context));
    return absl::OkStatus();
  }
  int32_t vocab_size() const override { return model_.vocab_size(); }

  absl::Status Logits(std::span<const TokenId> tokens, size_t first, const RowSink& sink) override {
    engine::LocalPipeline& pipeline = *model_.pipeline;
    pipeline.Reset();
    RETURN_IF_ERROR(pipeline.Feed(tokens.first(first), first, flags_.chunk).status());
    for (size_t begin = first; begin < tokens.size(); begin += kRowsAtOnce) {
      const auto part = tokens.subspan(begin, std::min(kRowsAtOnce, tokens.size() - begin));
      ASSIGN_OR_RETURN(const std::vector<float> rows, pipeline.Feed(part, 0, flags_.chunk));
      RETURN_IF_ERROR(sink(rows));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> LogProbabilities(std::span<const TokenId> tokens,
                                                      size_t first) override {
    const auto width = static_cast<size_t>(vocab_size());
    std::vector<float> found;
    const auto add = [&](std::span<const float> rows) {
      for (; !rows.empty(); rows = rows.subspan(width)) {
        const TokenId target = tokens[first + 1 + found.size()];
        found.push_back(engine::LogProbability(rows.first(width), target));
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(Logits(tokens.first(tokens.size() - 1), first, add));
    return found;
  }

 private:
  const ModelFlags flags_;
  std::unique_ptr<engine::GgufModel> file_;  // until Prepare
  const std::unique_ptr<engine::Tokenizer> tokenizer_;
  LocalModel model_;
};

class RemoteLogits : public LogitSource {
 public:
  static absl::StatusOr<std::unique_ptr<LogitSource>> Open(const ServerFlags& server) {
    ASSIGN_OR_RETURN(auto service, RemoteService::Make(server));
    ASSIGN_OR_RETURN(coordinator::ModelSummary model, service->FetchModel(kFetchTimeout));
    return std::make_unique<RemoteLogits>(std::move(service), std::move(model));
  }

  RemoteLogits(std::unique_ptr<RemoteService> service, coordinator::ModelSummary model)
      : service_(std::move(service)), model_(std::move(model)) {}

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text) override {
    return service_->Tokenize(text, /*parse_special=*/false, /*add_special=*/true);
  }
  absl::StatusOr<std::optional<TokenId>> Bos() override {
    ASSIGN_OR_RETURN(const std::vector<TokenId> added, Encode(""));
    return !added.empty() && added[0] == model_.bos ? std::optional(added[0]) : std::nullopt;
  }
  absl::Status Prepare(int32_t num_tokens) override {
    if (num_tokens <= model_.context_length) return absl::OkStatus();
    return WithHint(InvalidArgument("tokens: {}, but the server's context holds {}", num_tokens,
                                    model_.context_length),
                    "raise `context` in the topology file, or ask for fewer tokens");
  }
  int32_t vocab_size() const override { return model_.vocab_size; }

  absl::Status Logits(std::span<const TokenId> tokens, size_t first, const RowSink& sink) override {
    return Score(tokens, /*logits=*/true, tokens.size() - first,
                 [&](const coordinator::ScoreChunk& chunk) { return sink(chunk.logits); });
  }

  absl::StatusOr<std::vector<float>> LogProbabilities(std::span<const TokenId> tokens,
                                                      size_t first) override {
    std::vector<float> found;
    RETURN_IF_ERROR(Score(tokens, /*logits=*/false, tokens.size() - 1 - first,
                          [&](const coordinator::ScoreChunk& chunk) {
                            found.push_back(chunk.logprob);
                            return absl::OkStatus();
                          }));
    return found;
  }

 private:
  // Calls `row` on the stream's thread, which waits for it: rows that nobody took yet stay with the
  // server.
  absl::Status Score(std::span<const TokenId> tokens, bool logits, size_t rows,
                     const std::function<absl::Status(const coordinator::ScoreChunk&)>& row) {
    coordinator::ScoreRequest request;
    request.tokens.assign(tokens.begin(), tokens.end());
    request.last = static_cast<int32_t>(rows);
    request.logits = logits;
    std::promise<void> done;
    const std::future<void> ended = done.get_future();
    absl::Status status;
    std::atomic<bool> failed = false;
    ASSIGN_OR_RETURN(const uint64_t id,
                     service_->Score(request, [&](const coordinator::ScoreChunk& chunk) {
                       if (!chunk.done) {
                         if (status.ok()) status = row(chunk);
                         failed = !status.ok();
                         return;
                       }
                       if (status.ok()) status = chunk.status;
                       done.set_value();
                     }));
    while (ended.wait_for(kCancelAfter) != std::future_status::ready) {
      if (failed) service_->Cancel(id);
    }
    return status;
  }

  const std::unique_ptr<RemoteService> service_;
  const coordinator::ModelSummary model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogitSource>> OpenLogitSource(const ModelFlags& flags,
                                                             const ServerFlags& server) {
  if (server.given()) return RemoteLogits::Open(server);
  if (!flags.model.empty()) return LocalLogits::Open(flags);
  return UsageError("--model or --server: one of them is needed");
}

}  // namespace baton::cli
