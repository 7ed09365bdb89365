// Blocks of 32 values: value = d * q, or d * q + m.
#include <algorithm>
#include <cmath>

#include "engine/quantize/block_quantizers.h"
#include "engine/quantize/rounding.h"

namespace baton::engine {
namespace {

constexpr int kLegacyValues = 32;

struct Range {
  float min;
  float max;
};
Range RangeOf(const float* values) {
  const auto [min, max] = std::minmax_element(values, values + kLegacyValues);
  return {*min, *max};
}

// The value of the largest magnitude, with its sign.
float Extreme(const float* values) {
  float extreme = 0;
  for (int i = 0; i < kLegacyValues; ++i) {
    if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
  }
  return extreme;
}

// 0 for a scale of zero, or so small that its inverse is no number.
float Inverse(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Halves a block as its file does: value j and value j + 16 share byte j.
template <typename Quantize>
void PackNibbles(const float* values, uint8_t* bytes, uint8_t* fifth_bits, Quantize quantize) {
  uint32_t high = 0;
  for (int j = 0; j < kLegacyValues / 2; ++j) {
    const int low_q = quantize(values[j]);
    const int high_q = quantize(values[j + kLegacyValues / 2]);
    bytes[j] = static_cast<uint8_t>((low_q & 15) | (high_q & 15) << 4);
    high |= static_cast<uint32_t>(low_q >> 4 & 1) << j;
    high |= static_cast<uint32_t>(high_q >> 4 & 1) << (j + kLegacyValues / 2);
  }
  if (fifth_bits == nullptr) return;
  for (int i = 0; i < 4; ++i) fifth_bits[i] = static_cast<uint8_t>(high >> (8 * i) & 255);
}

// q in [0, 2 * half - 1] around `half`; the extreme value gets q = 0, the end with one step more.
template <typename Block>
void QuantizeSymmetric(const float* values, int half, uint8_t* fifth_bits, Block* block) {
  const float d = Extreme(values) / static_cast<float>(-half);
  const float inverse = Inverse(d);
  const float middle = static_cast<float>(half) + 0.5f;
  const float max_q = static_cast<float>(2 * half - 1);
  block->d = ToHalf(d);
  PackNibbles(values, block->qs, fifth_bits, [=](float value) {
    return static_cast<int>(Clamped(value * inverse + middle, 0, max_q));
  });
}

template <typename Block>
void QuantizeAffine(const float* values, int max_q, uint8_t* fifth_bits, Block* block) {
  const Range range = RangeOf(values);
  const float d = (range.max - range.min) / static_cast<float>(max_q);
  const float inverse = Inverse(d);
  block->d = ToHalf(d);
  block->m = ToHalf(range.min);
  PackNibbles(values, block->qs, fifth_bits, [=](float value) {
    return static_cast<int>(
        Clamped((value - range.min) * inverse + 0.5f, 0, static_cast<float>(max_q)));
  });
}

}  // namespace

void QuantizeBlock(const float* values, kernels::BlockQ4_0* block) {
  QuantizeSymmetric(values, 8, nullptr, block);
}
void QuantizeBlock(const float* values, kernels::BlockQ4_1* block) {
  QuantizeAffine(values, 15, nullptr, block);
}
void QuantizeBlock(const float* values, kernels::BlockQ5_0* block) {
  QuantizeSymmetric(values, 16, block->qh, block);
}
void QuantizeBlock(const float* values, kernels::BlockQ5_1* block) {
  QuantizeAffine(values, 31, block->qh, block);
}

void QuantizeBlock(const float* values, kernels::BlockQ8_0* block) {
  const float d = std::fabs(Extreme(values)) / 127.0f;
  const float inverse = Inverse(d);
  block->d = ToHalf(d);
  for (int i = 0; i < kLegacyValues; ++i) {
    // Ties away from zero, as the format's tools do.
    block->qs[i] = static_cast<int8_t>(Clamped(std::round(values[i] * inverse), -127, 127));
  }
}

}  // namespace baton::engine
