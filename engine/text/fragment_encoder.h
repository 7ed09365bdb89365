// How a kind of vocabulary turns ordinary text, without special tokens, into ids. Immutable, any
// thread.
#pragma once

#include <string_view>
#include <vector>

#include "engine/base/token_id.h"
#include "engine/text/word_cache.h"

namespace baton::engine {

class FragmentEncoder {
 public:
  virtual ~FragmentEncoder() = default;
  // Appends the ids of `text`, any bytes; `cache` knows words whose ids stand in `ids` already.
  virtual void Encode(std::string_view text, WordCache& cache, std::vector<TokenId>& ids) const = 0;
};

}  // namespace baton::engine
