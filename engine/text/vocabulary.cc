#include "engine/text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace baton::engine {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";

absl::Status CheckCount(std::string_view key, size_t got, size_t tokens) {
  if (got == tokens) return absl::OkStatus();
  return DataLoss("{}: {} entries, expected {}, one for each of {}", key, got, tokens, kTokensKey);
}

TokenType TypeFromFile(int64_t value) {
  const bool known = value >= 0 && value <= static_cast<int64_t>(TokenType::kByte);
  return known ? static_cast<TokenType>(value) : TokenType::kUndefined;
}

// Scores are floats; some converters wrote whole numbers.
absl::StatusOr<std::vector<float>> ReadScores(const Metadata& metadata) {
  const GgufValue* value = metadata.Find(kScoresKey);
  if (value == nullptr) return std::vector<float>();
  if (value->element != GgufType::kInt32) return metadata.GetFloats(kScoresKey);
  ASSIGN_OR_RETURN(const std::vector<int64_t> whole, metadata.GetInts(kScoresKey));
  return std::vector<float>(whole.begin(), whole.end());
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Read(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> texts, metadata.GetStrings(kTokensKey));
  if (texts.empty()) return DataLoss("{}: no tokens", kTokensKey);
  size_t bytes = 0;
  for (std::string_view text : texts) bytes += text.size();
  // Ids are 31 bits and places in the arena 32.
  if (texts.size() > std::numeric_limits<int32_t>::max() / 4 ||
      bytes > std::numeric_limits<uint32_t>::max() / 2) {
    return DataLoss("{}: {} tokens of {} bytes, more than any vocabulary has", kTokensKey,
                    texts.size(), bytes);
  }

  Vocabulary vocabulary;
  vocabulary.arena_.reserve(bytes);
  vocabulary.begin_.reserve(texts.size() + 1);
  for (std::string_view text : texts) vocabulary.Add(text);

  vocabulary.types_.assign(texts.size(), TokenType::kNormal);
  ASSIGN_OR_RETURN(const auto types, metadata.FindInts(kTypesKey));
  if (types) {
    RETURN_IF_ERROR(CheckCount(kTypesKey, types->size(), texts.size()));
    std::transform(types->begin(), types->end(), vocabulary.types_.begin(), TypeFromFile);
  }
  ASSIGN_OR_RETURN(vocabulary.scores_, ReadScores(metadata));
  if (!vocabulary.scores_.empty())
    RETURN_IF_ERROR(CheckCount(kScoresKey, vocabulary.scores_.size(), texts.size()));

  RETURN_IF_ERROR(vocabulary.BuildIndex());
  return vocabulary;
}

void Vocabulary::Add(std::string_view text) {
  // An empty token has no place in a text; several of them stay apart by these names.
  if (text.empty()) {
    arena_ += fmt::format("[EMPTY_{}]", begin_.size() - 1);
  } else {
    arena_ += text;
  }
  max_text_bytes_ = std::max(max_text_bytes_, arena_.size() - begin_.back());
  begin_.push_back(static_cast<uint32_t>(arena_.size()));
}

absl::Status Vocabulary::BuildIndex() {
  slots_.assign(std::bit_ceil(static_cast<size_t>(size()) * 3 / 2 + 1), kNoToken);
  for (TokenId id = 0; id < size(); ++id) {
    size_t slot = FirstSlot(text(id));
    for (; slots_[slot] != kNoToken; slot = (slot + 1) & (slots_.size() - 1)) {
      if (text(slots_[slot]) == text(id)) {
        return DataLoss("{}: \"{}\" stands twice, as {} and {}", kTokensKey, text(id), slots_[slot],
                        id);
      }
    }
    slots_[slot] = id;
  }
  return absl::OkStatus();
}

size_t Vocabulary::FirstSlot(std::string_view text) const {
  return std::hash<std::string_view>{}(text) & (slots_.size() - 1);
}

TokenId Vocabulary::Find(std::string_view wanted) const {
  size_t slot = FirstSlot(wanted);
  for (; slots_[slot] != kNoToken; slot = (slot + 1) & (slots_.size() - 1)) {
    if (text(slots_[slot]) == wanted) return slots_[slot];
  }
  return kNoToken;
}

TokenId Vocabulary::FindByte(uint8_t byte) const {
  constexpr char kHex[] = "0123456789ABCDEF";
  const char name[] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
  return Find(std::string_view(name, sizeof(name)));
}

}  // namespace baton::engine
