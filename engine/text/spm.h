// SentencePiece-style encoding: neighbouring pieces are joined while the result is a token, the
// best score first; what is no token falls back to bytes. Source: Kudo, Richardson, "SentencePiece"
// (2018), its BPE model.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/token_id.h"
#include "engine/text/byte_tokens.h"
#include "engine/text/fragment_encoder.h"
#include "engine/text/vocabulary.h"

namespace baton::engine {

class SpmEncoder final : public FragmentEncoder {
 public:
  // Keeps a reference to `vocabulary`, which must not move.
  SpmEncoder(const Vocabulary& vocabulary, TokenId unknown);
  void Encode(std::string_view text, WordCache& cache, std::vector<TokenId>& ids) const override;

 private:
  class Joiner;
  std::vector<uint32_t> SplitWords(std::string_view escaped) const;
  void EncodeWord(std::string_view word, Joiner& joiner, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  ByteTokens byte_tokens_;
  std::array<bool, 256> stands_before_space_{};  // bytes that some token has directly before "▁"
};

}  // namespace baton::engine
