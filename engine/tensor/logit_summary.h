// What a backend says of a row of logits in place of the row, which is long and mostly of no use:
// plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/token_id.h"

namespace baton::engine {

// The most of a row's best that a backend sorts.
inline constexpr int32_t kMostBestLogits = 256;

struct TokenLogit {
  TokenId id = kNoToken;
  float logit = 0;
};

// What somebody has to know of a row.
struct LogitQuestion {
  int32_t best = 1;          // how many of the best, at least; 1 to kMostBestLogits
  std::vector<TokenId> ids;  // whose logits, in the vocabulary
  bool weight_sum = false;
};

struct LogitSummary {
  bool sound = false;            // no logit is NaN or +infinity; if not, nothing else is said
  std::vector<TokenLogit> best;  // best first, equal ones by id, none -infinity
  bool all = false;              // no token is missing in `best` but those at -infinity
  std::vector<float> asked;      // the logits of the question's ids
  double weight_sum = 0;         // of e^(logit - best logit), in the order of exact_math.h
};

}  // namespace baton::engine
