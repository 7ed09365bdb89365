// Guesses what follows by looking up the last tokens earlier in the same sequence (Saxena, "Prompt
// Lookup Decoding", 2023): texts that quote, list or repeat themselves are verified several tokens
// at a time. Guesses never change an answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/token_id.h"

namespace baton::coordinator {

// What followed where the last three (or two) tokens stood before, most recently where `most`
// tokens followed.
std::vector<engine::TokenId> LookUpContinuation(std::span<const engine::TokenId> tokens,
                                                int32_t most);

// How much it is worth to guess for one sequence, from how its guesses fared.
class DraftPolicy {
 public:
  // Tokens to guess now, when `num_new` tokens of the answer are there.
  int32_t Length(int32_t num_new) const { return num_new < resume_at_ ? 0 : length_; }
  void OnVerified(int32_t guessed, int32_t accepted, int32_t num_new);

 private:
  int32_t length_ = 4;
  int32_t resume_at_ = 0;
};

}  // namespace baton::coordinator
