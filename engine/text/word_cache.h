#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/base/token_id.h"

namespace baton::engine {

// Where the words of a long text were encoded last: natural text repeats its words. Holds places,
// no copies.
class WordCache {
 public:
  WordCache(std::string_view text, size_t num_words) : text_(text) {
    if (num_words >= kMinWords) entries_.resize(std::min(std::bit_ceil(num_words), kMaxEntries));
  }

  // Appends the ids of an equal word, if there is one.
  bool Copy(size_t begin, size_t bytes, std::vector<TokenId>& ids) const {
    if (entries_.empty() || bytes > kMaxBytes) return false;
    const Entry& entry = entries_[Slot(begin, bytes)];
    if (entry.bytes != bytes || text_.compare(entry.begin, bytes, text_, begin, bytes) != 0)
      return false;
    for (size_t i = 0; i < entry.num_ids; ++i) ids.push_back(ids[entry.first_id + i]);
    return true;
  }
  void Remember(size_t begin, size_t bytes, size_t first_id, size_t num_ids) {
    if (entries_.empty() || bytes > kMaxBytes) return;
    entries_[Slot(begin, bytes)] = {begin, first_id, static_cast<uint32_t>(bytes),
                                    static_cast<uint32_t>(num_ids)};
  }

 private:
  static constexpr size_t kMinWords = 32, kMaxEntries = 1 << 14, kMaxBytes = 64;
  struct Entry {
    size_t begin = 0, first_id = 0;
    uint32_t bytes = 0, num_ids = 0;
  };
  size_t Slot(size_t begin, size_t bytes) const {
    return std::hash<std::string_view>{}(text_.substr(begin, bytes)) & (entries_.size() - 1);
  }

  std::string_view text_;
  std::vector<Entry> entries_;
};

}  // namespace baton::engine
