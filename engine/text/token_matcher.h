// Finds special tokens spelled out in a text. Immutable, any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/token_id.h"
#include "engine/gguf/metadata.h"
#include "engine/text/special_tokens.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace baton::engine {

// A piece of a text: a special token, or (kNoToken) ordinary text to encode.
struct TextFragment {
  size_t begin = 0, end = 0;  // [begin, end) in bytes
  TokenId token = kNoToken;
};

class TokenMatcher {
 public:
  // Keeps a reference to `vocabulary`, which must not move.
  TokenMatcher(const Metadata& metadata, const Vocabulary& vocabulary,
               const SpecialTokens& special);

  // Cuts `text` at its special tokens. Longer tokens win over shorter, then earlier places over
  // later. User-defined tokens always match, control tokens if `parse_control`, but never where
  // they touch a range of `content`.
  std::vector<TextFragment> Split(std::string_view text, bool parse_control,
                                  std::span<const PromptText::Range> content) const;

 private:
  struct Special {
    std::string_view text;
    TokenId id = kNoToken;
    bool control = false;  // needs parse_control
    bool barred_from_content = false;
    bool strips_left = false;  // takes the white space beside it along
    bool strips_right = false;
  };
  void ReadStripRules(const Metadata& metadata);
  std::vector<const Special*> FindPresent(std::string_view text) const;
  static void SplitAt(const Special& special, std::string_view text,
                      std::span<const PromptText::Range> content, const TextFragment& fragment,
                      std::vector<TextFragment>& out);

  std::vector<Special> specials_;  // sorted by text
  std::vector<size_t> first_;      // [257]: specials_[first_[b], first_[b + 1]) begin with byte b
};

}  // namespace baton::engine
