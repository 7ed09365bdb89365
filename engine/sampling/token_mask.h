// Which tokens may come next in an answer that has to follow a grammar.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/token_id.h"
#include "engine/sampling/grammar.h"

namespace baton::engine {

// The bytes of all tokens as a tree. One per tokenizer; immutable, any thread.
class TokenTree {
 public:
  // `bytes`: of each token, as it stands in a text; empty for those that never may come (control
  // tokens). `ends`: those that end an answer.
  TokenTree(std::span<const std::string> bytes, std::span<const TokenId> ends);

  struct Node {
    uint8_t byte = 0;
    uint32_t depth = 0;                         // 0: first byte of a token
    uint32_t subtree_end = 0;                   // index after the last node below
    uint32_t tokens_begin = 0, tokens_end = 0;  // in tokens()
  };
  // Nodes in preorder, so that a subtree is a range.
  struct Part {
    std::vector<Node> nodes;
    std::vector<TokenId> tokens;
  };
  // Tokens of whole characters that may stand in a string as they are, and all others.
  const Part& plain() const { return plain_; }
  const Part& other() const { return other_; }
  // The plain ones by their number of characters, fewest first.
  const std::vector<std::pair<uint32_t, TokenId>>& plain_by_length() const {
    return plain_by_length_;
  }
  const std::vector<TokenId>& ends() const { return ends_; }
  size_t mask_words() const { return mask_words_; }

 private:
  Part plain_, other_;
  std::vector<std::pair<uint32_t, TokenId>> plain_by_length_;
  std::vector<TokenId> ends_;
  size_t mask_words_ = 0;
};

// Masks for the states of one grammar, with those it has made before at hand. One thread at a time.
class TokenMasker {
 public:
  TokenMasker(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTree> tokens)
      : grammar_(std::move(grammar)), tokens_(std::move(tokens)) {}

  // A bit a token, [mask_words()]. A complete state allows the ends; a dead one nothing.
  std::vector<uint32_t> Mask(const GrammarState& state);

 private:
  using Bits = std::vector<uint32_t>;
  const Bits& MaskOf(const GrammarStack& stack);
  void Walk(const TokenTree::Part& part, const GrammarStack& stack, Bits& bits) const;

  static constexpr size_t kMaxCached = 256;
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTree> tokens_;
  std::map<GrammarStack, Bits> cache_;
};

}  // namespace baton::engine
