#include "engine/sampling/token_mask.h"

#include <algorithm>

namespace baton::engine {
namespace {

void Allow(TokenId id, std::vector<uint32_t>& bits) {
  bits[static_cast<size_t>(id) / 32] |= 1u << (static_cast<size_t>(id) % 32);
}

using SortedTokens = std::vector<std::pair<std::string_view, TokenId>>;

TokenTree::Part MakePart(const SortedTokens& sorted) {
  TokenTree::Part part;
  std::vector<uint32_t> path;  // nodes from the first byte to the last token's end
  std::string_view last;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      part.nodes[path.back()].subtree_end = static_cast<uint32_t>(part.nodes.size());
    }
  };
  for (const auto& [bytes, id] : sorted) {
    const size_t common =
        std::mismatch(bytes.begin(), bytes.end(), last.begin(), last.end()).first - bytes.begin();
    leave(common);
    for (size_t depth = common; depth < bytes.size(); ++depth) {
      const uint32_t at = static_cast<uint32_t>(part.tokens.size());
      path.push_back(static_cast<uint32_t>(part.nodes.size()));
      part.nodes.push_back({.byte = static_cast<uint8_t>(bytes[depth]),
                            .depth = static_cast<uint32_t>(depth),
                            .tokens_begin = at,
                            .tokens_end = at});
    }
    part.tokens.push_back(id);
    part.nodes[path.back()].tokens_end = static_cast<uint32_t>(part.tokens.size());
    last = bytes;
  }
  leave(0);
  return part;
}

}  // namespace

TokenTree::TokenTree(std::span<const std::string> bytes, std::span<const TokenId> ends)
    : ends_(ends.begin(), ends.end()), mask_words_((bytes.size() + 31) / 32) {
  SortedTokens plain, other;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i].empty()) continue;
    const TokenId id = static_cast<TokenId>(i);
    const uint32_t length = CountPlainCharacters(bytes[i]);
    (length > 0 ? plain : other).emplace_back(bytes[i], id);
    if (length > 0) plain_by_length_.emplace_back(length, id);
  }
  std::sort(plain.begin(), plain.end());
  std::sort(other.begin(), other.end());
  std::sort(plain_by_length_.begin(), plain_by_length_.end());
  plain_ = MakePart(plain);
  other_ = MakePart(other);
}

std::vector<uint32_t> TokenMasker::Mask(const GrammarState& state) {
  Bits mask(tokens_->mask_words());
  for (const GrammarStack& stack : state.stacks()) {
    const Bits& bits = MaskOf(stack);
    for (size_t i = 0; i < mask.size(); ++i) mask[i] |= bits[i];
  }
  return mask;
}

const std::vector<uint32_t>& TokenMasker::MaskOf(const GrammarStack& stack) {
  if (const auto known = cache_.find(stack); known != cache_.end()) return known->second;
  Bits bits(tokens_->mask_words());
  if (MayEnd(stack)) {
    for (TokenId id : tokens_->ends()) Allow(id, bits);
  }
  // Inside a string most tokens may come: those need no walk.
  if (const uint32_t left = PlainCharactersLeft(*grammar_, stack); left > 0) {
    for (const auto& [length, id] : tokens_->plain_by_length()) {
      if (length > left) break;
      Allow(id, bits);
    }
  } else {
    Walk(tokens_->plain(), stack, bits);
  }
  Walk(tokens_->other(), stack, bits);
  if (cache_.size() >= kMaxCached) cache_.clear();
  return cache_.emplace(stack, std::move(bits)).first->second;
}

void TokenMasker::Walk(const TokenTree::Part& part, const GrammarStack& stack, Bits& bits) const {
  // states[d]: the ways to read the d bytes above the current node.
  std::vector<std::vector<GrammarStack>> states = {{stack}};
  for (uint32_t i = 0; i < part.nodes.size();) {
    const TokenTree::Node& node = part.nodes[i];
    states.resize(std::max<size_t>(states.size(), node.depth + 2));
    std::vector<GrammarStack>& next = states[node.depth + 1];
    next.clear();
    for (const GrammarStack& each : states[node.depth]) {
      AdvanceStack(*grammar_, each, node.byte, next);
    }
    if (next.size() > 1) {  // overlapping alternatives must not multiply
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
    }
    if (next.empty()) {
      i = node.subtree_end;
      continue;
    }
    for (uint32_t token = node.tokens_begin; token < node.tokens_end; ++token) {
      Allow(part.tokens[token], bits);
    }
    ++i;
  }
}

}  // namespace baton::engine
