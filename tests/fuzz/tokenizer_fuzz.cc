// Any bytes as a prompt: ids of the vocabulary, and the text again.
#include <memory>
#include <string>
#include <vector>

#include "engine/text/token_spelling.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"
#include "tests/fuzz/target.h"
#include "tests/support/metadata_builder.h"

namespace baton::fuzz {
namespace {

using namespace engine;

enum : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  void Add(std::string text, int32_t type) {
    tokens.push_back(std::move(text));
    types.push_back(type);
  }
};

std::unique_ptr<Tokenizer> Create(const Vocabulary& vocabulary, testing::MetadataBuilder& builder) {
  builder.Strings("tokenizer.ggml.tokens", vocabulary.tokens)
      .Int32s("tokenizer.ggml.token_type", vocabulary.types);
  auto tokenizer = Tokenizer::Create(builder.Build());
  Require(tokenizer.ok());
  return *std::move(tokenizer);
}

std::unique_ptr<Tokenizer> BytePairs() {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    AppendByteCharacter(static_cast<uint8_t>(byte), character);
    vocabulary.Add(character, kNormal);
  }
  for (const char* text : {"he", "hel", "lo", "hello", "Ġw", "aa", "aaaa"})
    vocabulary.Add(text, kNormal);
  vocabulary.Add("  ", kUserDefined);
  vocabulary.Add("<|end|>", kControl);
  testing::MetadataBuilder builder;
  builder.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "qwen2")
      .Strings("tokenizer.ggml.merges", {"h e", "he l", "l o", "hel lo", "Ġ w", "a a", "aa aa"})
      .Uint32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(vocabulary.tokens.size() - 1));
  return Create(vocabulary, builder);
}

std::unique_ptr<Tokenizer> Pieces() {
  Vocabulary vocabulary;
  vocabulary.Add("<unk>", kUnknown);
  vocabulary.Add("<s>", kControl);
  vocabulary.Add("</s>", kControl);
  for (int byte = 0; byte < 256; ++byte) vocabulary.Add(fmt::format("<0x{:02X}>", byte), kByte);
  for (const char* text : {"▁", "h", "e", "l", "o", "he", "ll", "hello", "▁hello", "▁▁"})
    vocabulary.Add(text, kNormal);
  testing::MetadataBuilder builder;
  std::vector<float> scores(vocabulary.tokens.size());
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = -static_cast<float>(scores.size() - i);
  builder.String("tokenizer.ggml.model", "llama")
      .Floats("tokenizer.ggml.scores", scores)
      .Uint32("tokenizer.ggml.bos_token_id", 1)
      .Uint32("tokenizer.ggml.eos_token_id", 2);
  return Create(vocabulary, builder);
}

// Vocabularies of pieces put a space of their own before text that follows a special token.
bool HoldsSpecialPiece(std::string_view text) {
  for (const std::string_view special : {"<s>", "</s>", "<unk>"}) {
    if (text.find(special) != std::string_view::npos) return true;
  }
  return false;
}

void RequireIds(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (const TokenId id : ids) Require(id >= 0 && id < tokenizer.vocab_size());
}

void CheckText(const Tokenizer& tokenizer, std::string_view input, bool special) {
  const auto ids = tokenizer.Encode(input, {.parse_special = special, .add_special = false});
  RequireIds(tokenizer, ids);
  const std::string text = tokenizer.Decode(ids, /*special=*/true);
  // The sign for a space in vocabularies of pieces does not come back.
  const bool plain = IsValidUtf8(input) && input.find("\xE2\x96\x81") == std::string_view::npos;
  if (plain && !(special && HoldsSpecialPiece(input))) Require(text == input);
}

void CheckPrompt(const Tokenizer& tokenizer, std::string_view input) {
  PromptText prompt{.text = std::string(input), .content = {}};
  if (input.size() > 4) prompt.content = {{1, input.size() / 2}, {input.size() / 2, input.size()}};
  RequireIds(tokenizer, tokenizer.EncodePrompt(prompt));
}

}  // namespace

// The first byte says which vocabulary reads the rest, and how: '0' to '3'.
void FuzzTokenizer(std::string_view input) {
  static const std::unique_ptr<Tokenizer> tokenizers[] = {BytePairs(), Pieces()};
  if (input.empty()) return;
  const uint8_t choice = static_cast<uint8_t>(input[0]);
  const Tokenizer& tokenizer = *tokenizers[choice % std::size(tokenizers)];
  input.remove_prefix(1);
  CheckText(tokenizer, input, /*special=*/choice / std::size(tokenizers) % 2 == 1);
  CheckPrompt(tokenizer, input);
}

}  // namespace baton::fuzz
