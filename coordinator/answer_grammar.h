// Answers that must fit a JSON schema: which tokens may come next in them.
//
// The coordinator knows all tokens of an answer and sends a mask with each row that is sampled
// (OutputRow::allowed). The mask is a function of the answer's tokens alone, so a replay, a resumed
// request and another split of the layers come to the same one.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/sampling/grammar.h"
#include "engine/sampling/token_mask.h"
#include "engine/text/tokenizer.h"

namespace baton::coordinator {

// A schema made ready for one vocabulary. Requests with the same schema share it and the masks that
// it has made. Any thread.
class CompiledGrammar {
 public:
  CompiledGrammar(const std::shared_ptr<const engine::Grammar>& grammar,
                  std::shared_ptr<const engine::TokenTree> tokens)
      : start_(grammar), masker_(grammar, std::move(tokens)) {}

  const engine::GrammarState& start() const { return start_; }
  // A bit a token: what may come in this state.
  std::vector<uint32_t> Mask(const engine::GrammarState& state) {
    const std::lock_guard lock(mutex_);
    return masker_.Mask(state);
  }

 private:
  const engine::GrammarState start_;
  std::mutex mutex_;
  engine::TokenMasker masker_;  // guarded by mutex_
};

// Compiles schemas, and keeps those of late. Any thread.
class GrammarCompiler {
 public:
  explicit GrammarCompiler(const engine::Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // InvalidArgument says what in the schema is not understood.
  absl::StatusOr<std::shared_ptr<CompiledGrammar>> Compile(const std::string& json_schema);

 private:
  static constexpr size_t kMaxKept = 16;

  const engine::Tokenizer* const tokenizer_;
  std::mutex mutex_;
  std::shared_ptr<const engine::TokenTree> tokens_;  // guarded by mutex_; made when first needed
  std::list<std::pair<std::string, std::shared_ptr<CompiledGrammar>>>
      kept_;  // guarded by mutex_; latest first
};

// One answer's place in its grammar. Owner: the sequence. One thread at a time.
class AnswerGrammar {
 public:
  AnswerGrammar(std::shared_ptr<CompiledGrammar> compiled, const engine::Tokenizer* tokenizer);

  // InvalidArgument: this vocabulary has nothing to begin with.
  absl::Status CheckStart() const;

  // The answer goes on with `token`. InvalidArgument: nothing that this vocabulary can say may come
  // after it.
  absl::Status Accept(engine::TokenId token);
  // How many of the guesses may come next, one after another.
  size_t CountAllowed(std::span<const engine::TokenId> guesses) const;
  // A bit a token: what may come after the tokens accepted so far and then `guesses`, which may.
  std::vector<uint32_t> Mask(std::span<const engine::TokenId> guesses = {}) const;

 private:
  bool Advance(engine::TokenId token, engine::GrammarState* state) const;

  const std::shared_ptr<CompiledGrammar> compiled_;
  const engine::Tokenizer* const tokenizer_;
  engine::GrammarState state_;
};

}  // namespace baton::coordinator
