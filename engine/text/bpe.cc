#include "engine/text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "engine/text/token_spelling.h"
#include "engine/text/utf8.h"

namespace baton::engine {
namespace {

constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

// Spreads the bits of a pair of symbols. Source: the finalizer of MurmurHash3 (Austin Appleby,
// public domain).
uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

// The code point that a sequence of lead and continuation bytes spells, also in more bytes than it
// needs, as the reference engine reads them; its length, or 0 where there is none.
size_t ReadLoosely(std::string_view bytes, uint32_t& code_point) {
  const uint8_t lead = static_cast<uint8_t>(bytes[0]);
  if (lead < 0xC0 || lead >= 0xF8) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes.size() < length) return 0;
  code_point = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const uint8_t next = static_cast<uint8_t>(bytes[i]);
    if ((next & 0xC0) != 0x80) return 0;
    code_point = code_point << 6 | (next & 0x3Fu);
  }
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  return surrogate || code_point > 0x10FFFF ? 0 : length;
}

void AppendUtf8(uint32_t code_point, std::string& text) {
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
    return;
  }
  const int continuations = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  constexpr uint8_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  text.push_back(static_cast<char>(kLead[continuations] | code_point >> (6 * continuations)));
  for (int i = continuations - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(0x80 | ((code_point >> (6 * i)) & 0x3F)));
  }
}

// Valid UTF-8 of any bytes: each that spells nothing becomes U+FFFD.
std::string RepairUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + 16);
  while (!bytes.empty()) {
    uint32_t code_point = 0;
    size_t length = 1;
    if (static_cast<uint8_t>(bytes[0]) < 0x80) {
      text.push_back(bytes[0]);
    } else if ((length = ReadLoosely(bytes, code_point)) != 0) {
      AppendUtf8(code_point, text);
    } else {
      length = 1;
      text += kReplacementCharacter;
    }
    bytes.remove_prefix(length);
  }
  return text;
}

}  // namespace

// Symbols by text while the merges are read.
class BpeEncoder::SymbolTable {
 public:
  explicit SymbolTable(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  Symbol Intern(std::string_view text) {
    if (const TokenId id = vocabulary_.Find(text); id != kNoToken) return static_cast<Symbol>(id);
    const Symbol next = static_cast<Symbol>(vocabulary_.size() + steps_.size());
    return steps_.try_emplace(std::string(text), next).first->second;
  }
  Symbol Find(std::string_view text) const {
    if (const TokenId id = vocabulary_.Find(text); id != kNoToken) return static_cast<Symbol>(id);
    const auto step = steps_.find(std::string(text));
    return step == steps_.end() ? kNoSymbol : step->second;
  }

 private:
  const Vocabulary& vocabulary_;
  std::unordered_map<std::string, Symbol> steps_;  // texts that are no tokens
};

// The symbols of a word as a linked list, and the merges that are possible, best first. O(n log n).
class BpeEncoder::WordMerger {
 public:
  explicit WordMerger(const BpeEncoder& bpe) : bpe_(bpe) {}

  struct Node {
    Symbol symbol;
    uint32_t begin, bytes;  // bytes 0: merged into the one before
    int32_t previous, next;
  };

  void Clear() { nodes_.clear(); }
  void Add(Symbol symbol, size_t begin, size_t bytes) {
    const int32_t index = static_cast<int32_t>(nodes_.size());
    if (index > 0) nodes_.back().next = index;
    nodes_.push_back(
        {symbol, static_cast<uint32_t>(begin), static_cast<uint32_t>(bytes), index - 1, -1});
  }

  const std::vector<Node>& Run() {
    for (size_t i = 0; i + 1 < nodes_.size(); ++i) Offer(static_cast<int32_t>(i));
    while (!possible_.empty()) {
      const uint64_t best = possible_.top();
      possible_.pop();
      Apply(static_cast<uint32_t>(best >> 32), static_cast<int32_t>(best & UINT32_MAX));
    }
    return nodes_;
  }

 private:
  // The merge of a node with its next one: the lowest rank comes first, then the leftmost.
  void Offer(int32_t left) {
    if (left < 0 || nodes_[left].next < 0) return;
    const Merge* merge = bpe_.FindMerge(nodes_[left].symbol, nodes_[nodes_[left].next].symbol);
    if (merge != nullptr) possible_.push(uint64_t{merge->rank} << 32 | static_cast<uint32_t>(left));
  }

  // A rank belongs to one pair of symbols, so it also tells whether the pair still stands there.
  void Apply(uint32_t rank, int32_t index) {
    Node& left = nodes_[index];
    if (left.bytes == 0 || left.next < 0) return;
    Node& right = nodes_[left.next];
    const Merge* merge = bpe_.FindMerge(left.symbol, right.symbol);
    if (merge == nullptr || merge->rank != rank) return;
    left.symbol = merge->merged;
    left.bytes += right.bytes;
    left.next = right.next;
    right.bytes = 0;
    if (left.next >= 0) nodes_[left.next].previous = index;
    Offer(left.previous);
    Offer(index);
  }

  const BpeEncoder& bpe_;
  std::vector<Node> nodes_;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>
      possible_;  // rank, index of the left node
};

absl::StatusOr<std::unique_ptr<BpeEncoder>> BpeEncoder::Create(const Metadata& metadata,
                                                               const Vocabulary& vocabulary,
                                                               const PreTokenizerSpec& spec,
                                                               TokenId unknown) {
  ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(spec));
  std::unique_ptr<BpeEncoder> bpe(
      new BpeEncoder(vocabulary, spec, std::move(pre_tokenizer), unknown));
  RETURN_IF_ERROR(bpe->ReadMerges(metadata));
  return bpe;
}

absl::Status BpeEncoder::ReadMerges(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> lines, metadata.GetStrings(kMergesKey));
  merges_.resize(std::bit_ceil(lines.size() * 3 / 2 + 1));
  SymbolTable symbols(vocabulary_);
  std::string merged;
  for (size_t rank = 0; rank < lines.size(); ++rank) {
    const std::string_view line = lines[rank];
    // The left side has at least one character, which may itself be a space.
    const size_t space = line.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == line.size()) continue;
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    merged.assign(left).append(right);
    const uint64_t pair = uint64_t{symbols.Intern(left)} << 32 | symbols.Intern(right);
    AddMerge(pair, static_cast<uint32_t>(rank), symbols.Intern(merged));
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    AppendByteCharacter(static_cast<uint8_t>(byte), character);
    byte_symbols_[byte] = symbols.Find(character);
    byte_tokens_.Set(static_cast<uint8_t>(byte),
                     spec_.spelling == TokenSpelling::kByteCharacters
                         ? vocabulary_.Find(character)
                         : vocabulary_.FindByte(static_cast<uint8_t>(byte)));
  }
  return absl::OkStatus();
}

void BpeEncoder::AddMerge(uint64_t pair, uint32_t rank, Symbol merged) {
  size_t slot = Mix(pair) & (merges_.size() - 1);
  for (; merges_[slot].pair != kNoPair; slot = (slot + 1) & (merges_.size() - 1)) {
    if (merges_[slot].pair == pair) return;  // listed twice: the first counts
  }
  merges_[slot] = {pair, rank, merged};
}

const BpeEncoder::Merge* BpeEncoder::FindMerge(Symbol left, Symbol right) const {
  const uint64_t pair = uint64_t{left} << 32 | right;
  if (pair == kNoPair) return nullptr;
  size_t slot = Mix(pair) & (merges_.size() - 1);
  for (; merges_[slot].pair != kNoPair; slot = (slot + 1) & (merges_.size() - 1)) {
    if (merges_[slot].pair == pair) return &merges_[slot];
  }
  return nullptr;
}

void BpeEncoder::Encode(std::string_view text, WordCache& cache, std::vector<TokenId>& ids) const {
  std::string rewritten;
  if (!IsValidUtf8(text)) text = rewritten = RepairUtf8(text);
  if (spec_.spelling == TokenSpelling::kEscapedSpaces) text = rewritten = EscapeSpaces(text);

  const std::vector<uint32_t> words = pre_tokenizer_.Split(text);
  WordMerger merger(*this);
  size_t begin = 0;
  for (const uint32_t bytes : words) {
    const std::string_view word = text.substr(begin, bytes);
    if (!cache.Copy(word, ids)) {
      const size_t first_id = ids.size();
      EncodeWord(word, merger, ids);
      cache.Remember(word, first_id, ids);
    }
    begin += bytes;
  }
}

void BpeEncoder::EncodeWord(std::string_view word, WordMerger& merger,
                            std::vector<TokenId>& ids) const {
  if (const TokenId id = WholeWord(word); id != kNoToken) {
    ids.push_back(id);
    return;
  }
  merger.Clear();
  if (spec_.spelling == TokenSpelling::kByteCharacters) {
    for (size_t i = 0; i < word.size(); ++i)
      merger.Add(byte_symbols_[static_cast<uint8_t>(word[i])], i, 1);
  } else {
    for (size_t i = 0; i < word.size();) {
      const size_t bytes = ReadUtf8(word.substr(i)).bytes;
      const TokenId id = vocabulary_.Find(word.substr(i, bytes));
      merger.Add(id == kNoToken ? kNoSymbol : static_cast<Symbol>(id), i, bytes);
      i += bytes;
    }
  }
  for (const WordMerger::Node& node : merger.Run()) {
    if (node.bytes > 0) AppendSymbol(node.symbol, word.substr(node.begin, node.bytes), ids);
  }
}

TokenId BpeEncoder::WholeWord(std::string_view word) const {
  if (spec_.whole_words == WholeWords::kNone) return kNoToken;
  if (spec_.whole_words == WholeWords::kNewlines &&
      word.find_first_not_of('\n') != std::string_view::npos) {
    return kNoToken;
  }
  if (word.size() > vocabulary_.max_text_bytes()) return kNoToken;
  return spec_.spelling == TokenSpelling::kByteCharacters
             ? vocabulary_.Find(WriteBytesAsCharacters(word))
             : vocabulary_.Find(word);
}

void BpeEncoder::AppendSymbol(Symbol symbol, std::string_view bytes,
                              std::vector<TokenId>& ids) const {
  if (symbol < static_cast<Symbol>(vocabulary_.size())) {
    ids.push_back(static_cast<TokenId>(symbol));
  } else {
    byte_tokens_.Append(bytes, ids);
  }
}

}  // namespace baton::engine
