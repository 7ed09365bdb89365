// Text to token ids and back, from the vocabulary in the GGUF file itself.
//
// Owner: one per loaded model. Immutable after Create, so any thread may call it at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/gguf/metadata.h"

namespace baton::engine {

// A prompt with the byte ranges of it that are data (message content): there, control tokens are
// not matched.
struct PromptText {
  struct Range {
    size_t begin = 0, end = 0;  // [begin, end) in bytes
  };
  std::string text = {};
  std::vector<Range> content = {};  // sorted, not overlapping
};

class Tokenizer {
 public:
  // Copies what it needs: `metadata` may go afterwards. Errors name the key (tokenizer.ggml.pre,
  // …merges, …).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const Metadata& metadata);
  virtual ~Tokenizer() = default;

  struct EncodeOptions {
    bool parse_special = false;  // "<|im_end|>" in the text becomes that control token
    bool add_special = false;    // BOS and EOS where the model says so
  };
  virtual std::vector<TokenId> Encode(std::string_view text, EncodeOptions options) const = 0;
  // One text with special tokens parsed, but not inside its content ranges. Adds BOS where the
  // model says so and the text does not begin with it already.
  virtual std::vector<TokenId> EncodePrompt(const PromptText& prompt) const = 0;

  // Undoes Encode: drops the space that was put in front, cleans up spaces where the vocabulary
  // says so. Bytes may be invalid UTF-8. `special`: write out control tokens.
  virtual std::string Decode(std::span<const TokenId> ids, bool special) const = 0;
  // The raw bytes of one token in the middle of a text, for streaming. Out of range: empty.
  virtual std::string TokenBytes(TokenId id, bool special) const = 0;

  virtual int vocab_size() const = 0;
  virtual TokenId bos() const = 0;  // kNoToken: none
  virtual TokenId eos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual bool IsControl(TokenId id) const = 0;
  virtual bool IsEndOfGeneration(TokenId id) const = 0;  // eos, eot, eom and their like
  // As the vocabulary spells it: what templates get for bos() and eos().
  virtual std::string_view TokenText(TokenId id) const = 0;
  virtual const std::vector<std::string>& warnings() const = 0;  // to say at every start
};

}  // namespace baton::engine
