#include "coordinator/prompt_lookup.h"

#include <algorithm>

namespace baton::coordinator {
namespace {

constexpr size_t kMaxSearched = 8192;
constexpr int32_t kMaxLength = 8;
constexpr int32_t kPauseTokens = 8;  // after a guess that was wrong from its first token

}  // namespace

std::vector<engine::TokenId> LookUpContinuation(std::span<const engine::TokenId> tokens,
                                                int32_t most) {
  if (most <= 0) return {};
  tokens = tokens.last(std::min(tokens.size(), kMaxSearched));
  for (const size_t n : {size_t{3}, size_t{2}}) {
    if (tokens.size() < n + 1) continue;
    const auto pattern = tokens.last(n);
    std::span<const engine::TokenId> best;
    for (size_t at = tokens.size() - n; at-- > 0;) {
      if (!std::equal(pattern.begin(), pattern.end(), tokens.begin() + static_cast<ptrdiff_t>(at)))
        continue;
      best = tokens.subspan(at + n);
      if (best.size() >= static_cast<size_t>(most)) break;  // else further back: more follows there
    }
    if (best.empty()) continue;
    best = best.first(std::min(best.size(), static_cast<size_t>(most)));
    return {best.begin(), best.end()};
  }
  return {};
}

void DraftPolicy::OnVerified(int32_t guessed, int32_t accepted, int32_t num_new) {
  if (accepted == guessed) {
    length_ = std::min(2 * length_, kMaxLength);
  } else {
    length_ = std::max(accepted + 1, 2);
  }
  if (accepted == 0) resume_at_ = num_new + kPauseTokens;
}

}  // namespace baton::coordinator
