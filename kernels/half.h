// IEEE half and bfloat16 against float, by integers or by instructions that do the same: equal on
// every machine.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "kernels/host_device.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

BATON_HD inline float FloatFromBits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
BATON_HD inline uint32_t BitsOf(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

BATON_HD inline float HalfToFloat(uint16_t h) {
#if defined(__F16C__) && !defined(__CUDA_ARCH__)
  return _cvtsh_ss(h);
#else
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00) {  // infinity, or NaN made quiet as the hardware does
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000u : 0u;
    return FloatFromBits(sign | 0x7f800000u | (magnitude & 0x3ff) << 13 | quiet);
  }
  if (magnitude < 0x400) {  // subnormal: magnitude * 2^-24, exact
    return FloatFromBits(sign | BitsOf(static_cast<float>(magnitude) * (1.0f / 16777216.0f)));
  }
  return FloatFromBits(sign | ((magnitude << 13) + (112u << 23)));
#endif
}

// Rounds to nearest, ties to even; beyond the range: infinity.
BATON_HD inline uint16_t FloatToHalf(float f) {
  const uint32_t bits = BitsOf(f);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to 65536
  if (magnitude < 0x38800000u) {  // below 2^-14: the sum with 0.5 rounds at 2^-24
    const float sum = FloatFromBits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (BitsOf(sum) - BitsOf(0.5f)));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xfff + odd) >> 13));
}

BATON_HD inline float Bfloat16ToFloat(uint16_t h) {
  return FloatFromBits(static_cast<uint32_t>(h) << 16);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
