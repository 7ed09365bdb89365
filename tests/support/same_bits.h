// Floats that are equal as bits, NaNs and signs of zero included.
#pragma once

#include <cstring>
#include <span>

namespace baton::testing {

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace baton::testing
