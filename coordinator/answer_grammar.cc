#include "coordinator/answer_grammar.h"

#include <algorithm>

namespace baton::coordinator {

using engine::GrammarState;
using engine::TokenId;

namespace {

std::shared_ptr<const engine::TokenTree> MakeTokenTree(const engine::Tokenizer& tokenizer) {
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.vocab_size()));
  std::vector<TokenId> ends;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsEndOfGeneration(id)) {
      ends.push_back(id);
    } else {
      bytes[static_cast<size_t>(id)] = tokenizer.TokenBytes(id, /*special=*/false);
    }
  }
  return std::make_shared<engine::TokenTree>(bytes, ends);
}

bool AllowsAny(const std::vector<uint32_t>& mask) {
  return std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; });
}

}  // namespace

absl::StatusOr<std::shared_ptr<CompiledGrammar>> GrammarCompiler::Compile(
    const std::string& json_schema) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(kept_.begin(), kept_.end(),
                                    [&](const auto& kept) { return kept.first == json_schema; });
    if (known != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, known);
      return known->second;
    }
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const engine::Grammar> grammar,
                   engine::Grammar::FromJsonSchema(json_schema));
  const std::lock_guard lock(mutex_);
  if (tokens_ == nullptr) tokens_ = MakeTokenTree(*tokenizer_);
  kept_.emplace_front(json_schema, std::make_shared<CompiledGrammar>(std::move(grammar), tokens_));
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return kept_.front().second;
}

AnswerGrammar::AnswerGrammar(std::shared_ptr<CompiledGrammar> compiled,
                             const engine::Tokenizer* tokenizer)
    : compiled_(std::move(compiled)), tokenizer_(tokenizer), state_(compiled_->start()) {}

// A token that ends the answer says nothing.
bool AnswerGrammar::Advance(TokenId token, GrammarState* state) const {
  if (tokenizer_->IsEndOfGeneration(token)) return state->complete();
  const std::string bytes = tokenizer_->TokenBytes(token, /*special=*/false);
  return !bytes.empty() && state->Advance(bytes);
}

absl::Status AnswerGrammar::CheckStart() const {
  if (AllowsAny(Mask())) return absl::OkStatus();
  return InvalidArgument("grammar_json_schema: no token of the vocabulary begins such an answer");
}

absl::Status AnswerGrammar::Accept(TokenId token) {
  if (Advance(token, &state_) && AllowsAny(Mask())) return absl::OkStatus();
  return InvalidArgument("grammar_json_schema: no token of the vocabulary goes on after {}", token);
}

size_t AnswerGrammar::CountAllowed(std::span<const TokenId> guesses) const {
  GrammarState state = state_;
  size_t count = 0;
  while (count < guesses.size() && Advance(guesses[count], &state)) ++count;
  return count;
}

std::vector<uint32_t> AnswerGrammar::Mask(std::span<const TokenId> guesses) const {
  if (guesses.empty()) return compiled_->Mask(state_);
  GrammarState state = state_;
  for (const TokenId guess : guesses) Advance(guess, &state);
  return compiled_->Mask(state);
}

}  // namespace baton::coordinator
