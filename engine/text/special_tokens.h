// Which tokens have a meaning of their own: beginning and end of text, end of an answer, control
// tokens.
#pragma once

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/gguf/metadata.h"
#include "engine/text/vocabulary.h"

namespace baton::engine {

// What a vocabulary kind assumes where a key is absent.
struct SpecialTokenDefaults {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unknown = kNoToken;
  bool add_bos = false;
};

struct SpecialTokens {
  // Reads the tokenizer.ggml.*_token_id and add_* keys, and finds by their texts the tokens that
  // converters forgot to name. Sets the types in `vocabulary` that files have wrong. What looks
  // wrong in the file goes to `warnings`.
  static absl::StatusOr<SpecialTokens> Read(const Metadata& metadata,
                                            const SpecialTokenDefaults& defaults,
                                            Vocabulary& vocabulary,
                                            std::vector<std::string>& warnings);

  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unknown = kNoToken;
  bool add_bos = false;
  bool add_eos = false;
  std::vector<TokenId> end_of_generation;  // sorted
  std::vector<TokenId>
      shown_control;  // sorted; control in the file, but written out as text in answers

  bool EndsGeneration(TokenId id) const;
};

}  // namespace baton::engine
