// The tokens of a GGUF vocabulary: texts, types, scores, and the id of a text. Compact: one arena
// of bytes, flat arrays. Immutable once its tokenizer is made, so any thread may read it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/gguf/metadata.h"

namespace baton::engine {

// As tokenizer.ggml.token_type stores it.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

class Vocabulary {
 public:
  // Reads tokenizer.ggml.tokens, .token_type and .scores. DataLoss for lengths that differ or a
  // text that stands twice.
  static absl::StatusOr<Vocabulary> Read(const Metadata& metadata);

  int size() const { return static_cast<int>(types_.size()); }
  bool Contains(TokenId id) const { return id >= 0 && id < size(); }
  std::string_view text(TokenId id) const {
    return std::string_view(arena_).substr(begin_[id], begin_[id + 1] - begin_[id]);
  }
  TokenType type(TokenId id) const { return types_[id]; }
  void set_type(TokenId id, TokenType type) { types_[id] = type; }
  float score(TokenId id) const { return scores_.empty() ? 0.0f : scores_[id]; }
  size_t max_text_bytes() const { return max_text_bytes_; }

  TokenId Find(std::string_view text) const;  // kNoToken: no such token
  TokenId FindByte(uint8_t byte) const;       // spelled "<0x0A>"

 private:
  void Add(std::string_view text);
  absl::Status BuildIndex();
  size_t FirstSlot(std::string_view text) const;

  std::string arena_;
  std::vector<uint32_t> begin_ = {0};  // [size + 1] into arena_
  std::vector<TokenType> types_;
  std::vector<float> scores_;   // empty: all 0
  std::vector<TokenId> slots_;  // open addressing by hash of the text, a power of two
  size_t max_text_bytes_ = 0;
};

}  // namespace baton::engine
