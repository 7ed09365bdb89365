#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/base/token_id.h"

namespace baton::engine {

// How the words of a long text were encoded last: natural text repeats its words. One text's, which
// may come in many fragments, and its ids, which are appended to one vector; one thread's.
class WordCache {
 public:
  explicit WordCache(size_t text_bytes) {
    const size_t entries = std::min(std::bit_floor(text_bytes / kTextBytesAnEntry), kMaxEntries);
    if (entries >= kMinEntries) entries_.resize(entries);
  }

  // Appends the ids of an equal word, if there is one.
  bool Copy(std::string_view word, std::vector<TokenId>& ids) const {
    if (entries_.empty() || word.size() > kMaxBytes) return false;
    const Entry& entry = entries_[Slot(word)];
    if (entry.bytes != word.size() ||
        std::memcmp(entry.word.data(), word.data(), word.size()) != 0) {
      return false;
    }
    for (size_t i = 0; i < entry.num_ids; ++i) ids.push_back(ids[entry.first_id + i]);
    return true;
  }
  // The ids of `word` are those from `first_id` to the end.
  void Remember(std::string_view word, size_t first_id, const std::vector<TokenId>& ids) {
    if (entries_.empty() || word.empty() || word.size() > kMaxBytes) return;
    Entry& entry = entries_[Slot(word)];
    std::memcpy(entry.word.data(), word.data(), word.size());
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.num_ids = static_cast<uint8_t>(ids.size() - first_id);
    entry.first_id = static_cast<uint32_t>(first_id);
  }

 private:
  static constexpr size_t kMaxBytes = 42;  // 48 bytes an entry; no more ids than bytes
  static constexpr size_t kTextBytesAnEntry = 8, kMinEntries = 32, kMaxEntries = 1 << 14;
  struct Entry {
    uint32_t first_id = 0;
    uint8_t num_ids = 0, bytes = 0;  // bytes 0: none
    std::array<char, kMaxBytes> word;
  };
  size_t Slot(std::string_view word) const {
    return std::hash<std::string_view>{}(word) & (entries_.size() - 1);
  }

  std::vector<Entry> entries_;
};

}  // namespace baton::engine
