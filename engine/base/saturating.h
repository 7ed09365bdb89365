// Sums and products of sizes that somebody else claims: they stop at the largest number instead of
// wrapping, so that what is too large stays too large for every comparison that follows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace baton::engine {

constexpr uint64_t SaturatingSum(std::initializer_list<uint64_t> values) {
  uint64_t sum = 0;
  for (const uint64_t value : values) {
    if (__builtin_add_overflow(sum, value, &sum)) return std::numeric_limits<uint64_t>::max();
  }
  return sum;
}

constexpr uint64_t SaturatingProduct(std::initializer_list<uint64_t> values) {
  uint64_t product = 1;
  bool wraps = false;
  for (const uint64_t value : values) {
    if (value == 0) return 0;
    wraps = __builtin_mul_overflow(product, value, &product) || wraps;
  }
  return wraps ? std::numeric_limits<uint64_t>::max() : product;
}

}  // namespace baton::engine
