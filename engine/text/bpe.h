// Byte-pair encoding: words are merged pair by pair, in the order of the vocabulary's list of
// merges. Source: Sennrich, Haddow, Birch, "Neural Machine Translation of Rare Words with Subword
// Units" (2016).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/gguf/metadata.h"
#include "engine/text/byte_tokens.h"
#include "engine/text/fragment_encoder.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/vocabulary.h"

namespace baton::engine {

class BpeEncoder final : public FragmentEncoder {
 public:
  // Keeps a reference to `vocabulary`, which must not move. NotFound names tokenizer.ggml.merges.
  static absl::StatusOr<std::unique_ptr<BpeEncoder>> Create(const Metadata& metadata,
                                                            const Vocabulary& vocabulary,
                                                            const PreTokenizerSpec& spec,
                                                            TokenId unknown);
  void Encode(std::string_view text, WordCache& cache, std::vector<TokenId>& ids) const override;

 private:
  // What merges work on: a token, or a text that is only a step on the way to one (ids from
  // vocabulary.size()).
  using Symbol = uint32_t;
  static constexpr Symbol kNoSymbol = UINT32_MAX;

  struct Merge {
    uint64_t pair = kNoPair;  // left symbol in the high half, right symbol in the low half
    uint32_t rank = 0;
    Symbol merged = kNoSymbol;
  };
  static constexpr uint64_t kNoPair = UINT64_MAX;

  class WordMerger;
  class SymbolTable;

  BpeEncoder(const Vocabulary& vocabulary, const PreTokenizerSpec& spec, PreTokenizer pre_tokenizer,
             TokenId unknown)
      : vocabulary_(vocabulary),
        spec_(spec),
        pre_tokenizer_(std::move(pre_tokenizer)),
        byte_tokens_(unknown) {}
  absl::Status ReadMerges(const Metadata& metadata);
  void AddMerge(uint64_t pair, uint32_t rank, Symbol merged);
  const Merge* FindMerge(Symbol left, Symbol right) const;

  void EncodeWord(std::string_view word, WordMerger& merger, std::vector<TokenId>& ids) const;
  TokenId WholeWord(std::string_view word) const;
  void AppendSymbol(Symbol symbol, std::string_view bytes, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  const PreTokenizerSpec& spec_;
  PreTokenizer pre_tokenizer_;
  std::array<Symbol, 256> byte_symbols_{};  // kByteCharacters only
  ByteTokens byte_tokens_;
  std::vector<Merge> merges_;  // open addressing, a power of two
};

}  // namespace baton::engine
