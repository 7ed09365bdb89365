#include "engine/text/spm.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <queue>
#include <string>

#include "engine/text/token_spelling.h"

namespace baton::engine {
namespace {

// Length of the character that a byte begins, in well-formed text.
size_t CharacterBytes(char lead) {
  const uint8_t byte = static_cast<uint8_t>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Integers in the order of floats; NaN, which only a broken file has, is lowest.
uint32_t Ordered(float score) {
  if (!(score == score)) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 is 0
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

}  // namespace

class SpmEncoder::Joiner {
 public:
  struct Piece {
    uint32_t begin, bytes;  // bytes 0: joined to the one before
    int32_t previous, next;
  };

  explicit Joiner(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // The pieces that `text` is joined to.
  const std::vector<Piece>& Run(std::string_view text) {
    Start(text);
    for (size_t i = 0; i + 1 < pieces_.size(); ++i) Offer(static_cast<int32_t>(i));
    while (!possible_.empty()) {
      const Join join = possible_.top();
      possible_.pop();
      Apply(join);
    }
    return pieces_;
  }

 private:
  // A piece and its next one, which together are a token.
  struct Join {
    uint32_t score;  // in order
    int32_t left;
    uint32_t bytes;  // of both; pieces only grow, so that an equal sum means they are as they were
    bool operator<(const Join& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  void Start(std::string_view text) {
    text_ = text;
    pieces_.clear();
    for (size_t begin = 0; begin < text.size();) {
      const size_t bytes = std::min(CharacterBytes(text[begin]), text.size() - begin);
      const int32_t index = static_cast<int32_t>(pieces_.size());
      if (index > 0) pieces_.back().next = index;
      pieces_.push_back(
          {static_cast<uint32_t>(begin), static_cast<uint32_t>(bytes), index - 1, -1});
      begin += bytes;
    }
  }

  void Offer(int32_t index) {
    if (index < 0 || pieces_[index].next < 0) return;
    const Piece& left = pieces_[index];
    const uint32_t bytes = left.bytes + pieces_[left.next].bytes;
    if (bytes > vocabulary_.max_text_bytes()) return;
    const TokenId id = vocabulary_.Find(text_.substr(left.begin, bytes));
    if (id != kNoToken) possible_.push({Ordered(vocabulary_.score(id)), index, bytes});
  }

  void Apply(const Join& join) {
    Piece& left = pieces_[join.left];
    if (left.bytes == 0 || left.next < 0) return;
    Piece& right = pieces_[left.next];
    if (left.bytes + right.bytes != join.bytes) return;
    left.bytes = join.bytes;
    left.next = right.next;
    right.bytes = 0;
    if (left.next >= 0) pieces_[left.next].previous = join.left;
    Offer(left.previous);
    Offer(join.left);
  }

  const Vocabulary& vocabulary_;
  std::string_view text_;
  std::vector<Piece> pieces_;
  std::priority_queue<Join> possible_;
};

SpmEncoder::SpmEncoder(const Vocabulary& vocabulary, TokenId unknown)
    : vocabulary_(vocabulary), byte_tokens_(unknown) {
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const TokenId id = vocabulary.FindByte(static_cast<uint8_t>(byte));
    byte_tokens_.Set(static_cast<uint8_t>(byte),
                     id != kNoToken ? id : vocabulary.Find(std::string_view(&character, 1)));
  }
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(id);
    for (size_t at = text.find(kEscapedSpace, 1); at != std::string_view::npos;
         at = text.find(kEscapedSpace, at + 1)) {
      stands_before_space_[static_cast<uint8_t>(text[at - 1])] = true;
    }
  }
}

void SpmEncoder::Encode(std::string_view text, WordCache& cache, std::vector<TokenId>& ids) const {
  const std::string escaped = EscapeSpaces(text);
  const std::vector<uint32_t> words = SplitWords(escaped);
  Joiner joiner(vocabulary_);
  size_t begin = 0;
  for (const uint32_t bytes : words) {
    const std::string_view word = std::string_view(escaped).substr(begin, bytes);
    if (!cache.Copy(word, ids)) {
      const size_t first_id = ids.size();
      EncodeWord(word, joiner, ids);
      cache.Remember(word, first_id, ids);
    }
    begin += bytes;
  }
}

// Cuts before each space that no token joins with what stands before it: the parts can't influence
// each other. Their lengths in bytes.
std::vector<uint32_t> SpmEncoder::SplitWords(std::string_view escaped) const {
  std::vector<uint32_t> lengths;
  size_t begin = 0;
  for (size_t at = 0; at < escaped.size(); at += CharacterBytes(escaped[at])) {
    if (at == 0 || !escaped.substr(at).starts_with(kEscapedSpace)) continue;
    if (stands_before_space_[static_cast<uint8_t>(escaped[at - 1])]) continue;
    lengths.push_back(static_cast<uint32_t>(at - begin));
    begin = at;
  }
  if (begin < escaped.size()) lengths.push_back(static_cast<uint32_t>(escaped.size() - begin));
  return lengths;
}

void SpmEncoder::EncodeWord(std::string_view word, Joiner& joiner,
                            std::vector<TokenId>& ids) const {
  for (const Joiner::Piece& piece : joiner.Run(word)) {
    if (piece.bytes == 0) continue;
    const std::string_view characters = word.substr(piece.begin, piece.bytes);
    if (const TokenId id = vocabulary_.Find(characters); id != kNoToken) {
      ids.push_back(id);
    } else {
      byte_tokens_.Append(characters, ids);
    }
  }
}

}  // namespace baton::engine
