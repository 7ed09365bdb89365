// Random numbers as a function of a key and a counter, so that a replay draws the same ones.
// Philox4x32-10. Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3"
// (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace baton::engine {

constexpr std::array<uint32_t, 4> Philox(uint64_t key, std::array<uint32_t, 4> counter) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// Uniform in [0, 1), 53 bits, for a position of a sequence with a seed.
constexpr double UniformAt(uint64_t seed, uint64_t position) {
  const auto bits =
      Philox(seed, {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0});
  const uint64_t word = uint64_t{bits[1]} << 32 | bits[0];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace baton::engine
