// Random weights of any type: random bits under small scales.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "kernels/block_layouts.h"
#include "kernels/half.h"

namespace baton::testing {

namespace internal {

inline void StoreHalf(float f, kernels::Bytes2& to) {
  const uint16_t h = kernels::FloatToHalf(f);
  std::memcpy(&to, &h, 2);
}

// Gives the scales of a block, which hold random bits by now, sensible values.
template <class Block>
void SetScales(Block& b, std::mt19937& random) {
  const auto scale = [&] {
    return (random() % 2 ? 1.0f : -1.0f) * (0.001f + static_cast<float>(random() % 1000) * 1e-5f);
  };
  if constexpr (Block::kType == kernels::QuantType::kF32) {
    const float f = scale() * 100;
    std::memcpy(&b, &f, 4);
  } else if constexpr (Block::kType == kernels::QuantType::kF16) {
    StoreHalf(scale() * 100, b.bits);
  } else if constexpr (Block::kType == kernels::QuantType::kBF16) {
    const float f = scale() * 100;
    std::memcpy(&b, reinterpret_cast<const char*>(&f) + 2, 2);
  } else if constexpr (Block::kType == kernels::QuantType::kMXFP4) {
    b.e = static_cast<uint8_t>(118 + random() % 8);
  } else if constexpr (Block::kType == kernels::QuantType::kIQ1_M) {
    const uint16_t d = kernels::FloatToHalf(scale());  // in the top nibbles of the four words
    for (int i = 0; i < 4; ++i) {
      b.scales[i].bytes[1] =
          static_cast<uint8_t>((b.scales[i].bytes[1] & 15) | (d >> (4 * i) & 15) << 4);
    }
  } else {
    StoreHalf(scale(), b.d);
    if constexpr (requires { b.m; }) StoreHalf(scale(), b.m);
    if constexpr (requires { b.dmin; }) StoreHalf(scale(), b.dmin);
  }
}

template <class Block>
std::vector<uint8_t> RandomBlocksOf(int64_t values, std::mt19937& random) {
  constexpr int kBlock = kernels::TraitsOf(Block::kType).block_size;
  std::vector<uint8_t> bytes(values / kBlock * sizeof(Block));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 24);
  auto* blocks = reinterpret_cast<Block*>(bytes.data());
  for (int64_t i = 0; i < values / kBlock; ++i) SetScales(blocks[i], random);
  return bytes;
}

}  // namespace internal

inline std::vector<uint8_t> RandomBlocks(kernels::QuantType type, int64_t values,
                                         std::mt19937& random) {
  switch (type) {
#define BATON_RANDOM_BLOCKS(Block) \
  case kernels::Block::kType:      \
    return internal::RandomBlocksOf<kernels::Block>(values, random);
    BATON_FOR_EACH_BLOCK(BATON_RANDOM_BLOCKS)
#undef BATON_RANDOM_BLOCKS
    default:
      return {};
  }
}

}  // namespace baton::testing
