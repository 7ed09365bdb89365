// What all block quantizers share.
#pragma once

#include <cstdint>

#include "kernels/block_layouts.h"
#include "kernels/half.h"

namespace baton::engine {

// Below this a group counts as zero: its scale would not be a number.
inline constexpr float kTinyGroup = 1e-15f;

inline kernels::Bytes2 ToHalf(float value) {
  const uint16_t bits = kernels::FloatToHalf(value);
  return {{static_cast<uint8_t>(bits & 255), static_cast<uint8_t>(bits >> 8)}};
}
// A scale as the file will hold it.
inline float RoundedToHalf(float value) {
  return kernels::HalfToFloat(kernels::FloatToHalf(value));
}

// To the nearest integer, ties to even, for magnitudes below 2^22: the sum has no bits for a
// fraction.
inline float NearestInteger(float value) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return value + kShift - kShift;
}

// What is no number becomes `low`: a cast to an integer must not see it.
inline float Clamped(float value, float low, float high) {
  return value > low ? (value < high ? value : high) : low;
}

}  // namespace baton::engine
