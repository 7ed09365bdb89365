// Cuts a text into the words that byte-pair merges never cross. What differs between vocabularies
// is a row in a table.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/token_spelling.h"

namespace baton::engine {

// Which words become their own token at once, where there is one, instead of by merging.
enum class WholeWords : uint8_t { kNone, kNewlines, kAll };

// A value of tokenizer.ggml.pre. The patterns are applied one after another: each cuts the pieces
// that the ones before it left, at the beginning and the end of its matches.
struct PreTokenizerSpec {
  const char* names;  // separated by spaces
  const char* patterns[6];
  TokenSpelling spelling = TokenSpelling::kByteCharacters;
  WholeWords whole_words = WholeWords::kNone;
  bool add_bos = false;  // defaults of keys that the file may hold
  bool clean_spaces = true;
};

// nullptr: no such name.
const PreTokenizerSpec* FindPreTokenizer(std::string_view name);
// The row for files that name none.
const PreTokenizerSpec& DefaultPreTokenizer();

// A row's patterns, compiled. Immutable, any thread.
class PreTokenizer {
 public:
  static absl::StatusOr<PreTokenizer> Create(const PreTokenizerSpec& spec);

  // The lengths in bytes of the words of `text`, which is valid UTF-8. They add up to its size.
  std::vector<uint32_t> Split(std::string_view text) const;

 private:
  struct PatternDeleter {
    void operator()(void* pattern) const;
  };
  using Pattern = std::unique_ptr<void, PatternDeleter>;  // a pcre2_code

  std::vector<Pattern> patterns_;
};

}  // namespace baton::engine
