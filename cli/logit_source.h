// Who computes logits: a model in this process, or a running coordinator over gRPC. For `logits`
// and `perplexity`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/model_flags.h"
#include "cli/server_flags.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"

namespace baton::cli {

// Owns what computes. One a command; its thread makes all calls.
class LogitSource {
 public:
  virtual ~LogitSource() = default;

  // With BOS and EOS where the model says so.
  virtual absl::StatusOr<std::vector<engine::TokenId>> Encode(std::string_view text) = 0;
  // The BOS that Encode puts first; nullopt: none.
  virtual absl::StatusOr<std::optional<engine::TokenId>> Bos() = 0;
  // Makes ready for sequences of up to `num_tokens`: a model in this process loads its weights.
  virtual absl::Status Prepare(int32_t num_tokens) = 0;
  // Valid after Prepare.
  virtual int32_t vocab_size() const = 0;

  // Float32 [rows, vocab_size], some rows at a time, in order.
  using RowSink = std::function<absl::Status(std::span<const float> rows)>;
  // Rows after tokens `first` and later of a sequence that begins with tokens[0].
  virtual absl::Status Logits(std::span<const engine::TokenId> tokens, size_t first,
                              const RowSink& sink) = 0;
  // Log-probabilities of tokens[first + 1], tokens[first + 2], … given the tokens before each.
  virtual absl::StatusOr<std::vector<float>> LogProbabilities(
      std::span<const engine::TokenId> tokens, size_t first) = 0;
};

// As the flags say; a usage error where neither --model nor --server is there.
absl::StatusOr<std::unique_ptr<LogitSource>> OpenLogitSource(const ModelFlags& flags,
                                                             const ServerFlags& server);

}  // namespace baton::cli
