// Q4_K, Q5_K, Q6_K: 256 values; groups whose scales are integers times the block's own.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/quantize/block_quantizers.h"
#include "engine/quantize/group_fit.h"
#include "engine/quantize/rounding.h"

namespace baton::engine {
namespace {

constexpr int kSuperBlockValues = 256;
constexpr int kAffineGroups = 8;  // of 32 values
constexpr int kAffineSize = 32;
constexpr int kSymmetricGroups = 16;  // of 16 values
constexpr int kSymmetricSize = 16;
constexpr float kMaxGroupScale = 63;  // 6 bits

// Scales and mins of the groups as integers of 6 bits, and the block's factors for them.
struct AffineScales {
  float d;
  float dmin;
  int scale[kAffineGroups];
  int min[kAffineGroups];
};

AffineScales RoundScales(const AffineFit<kAffineGroups, kAffineSize>& fit) {
  const float max_scale = std::max(0.0f, *std::max_element(fit.scale, fit.scale + kAffineGroups));
  const float max_min = std::max(0.0f, *std::max_element(fit.min, fit.min + kAffineGroups));
  const float inverse_scale = max_scale > 0 ? kMaxGroupScale / max_scale : 0;
  const float inverse_min = max_min > 0 ? kMaxGroupScale / max_min : 0;
  AffineScales scales = {
      .d = max_scale / kMaxGroupScale, .dmin = max_min / kMaxGroupScale, .scale = {}, .min = {}};
  const auto rounded = [](float value) {
    return static_cast<int>(Clamped(NearestInteger(value), 0, kMaxGroupScale));
  };
  for (int g = 0; g < kAffineGroups; ++g) {
    scales.scale[g] = rounded(inverse_scale * fit.scale[g]);
    scales.min[g] = rounded(inverse_min * fit.min[g]);
  }
  return scales;
}

// Twelve bytes: the first four groups' low 6 bits, the others' nibbles and, on top of the first,
// their high 2 bits.
void PackScales(const AffineScales& scales, uint8_t* bytes) {
  std::memset(bytes, 0, 12);
  for (int g = 0; g < 4; ++g) {
    const int scale = scales.scale[g + 4];
    const int min = scales.min[g + 4];
    bytes[g] = static_cast<uint8_t>(scales.scale[g] | scale >> 4 << 6);
    bytes[g + 4] = static_cast<uint8_t>(scales.min[g] | min >> 4 << 6);
    bytes[g + 8] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
  }
}

// Scales into the block, values into q.
template <typename Block>
void QuantizeAffine(const float* values, float max_q, SearchSteps steps, Block* block, uint8_t* q) {
  const auto groups = TransposedGroups<kAffineGroups, kAffineSize>(values);
  const auto fit = AffineSearch<kAffineGroups, kAffineSize>(groups, max_q).Run(steps);
  const AffineScales scales = RoundScales(fit);
  block->d = ToHalf(scales.d);
  block->dmin = ToHalf(scales.dmin);
  PackScales(scales, block->scales);
  for (int g = 0; g < kAffineGroups; ++g) {
    const float d = RoundedToHalf(scales.d) * static_cast<float>(scales.scale[g]);
    const float min = RoundedToHalf(scales.dmin) * static_cast<float>(scales.min[g]);
    for (int i = 0; i < kAffineSize; ++i) {
      // A group without a scale keeps what the search rounded it to.
      const float rounded = d != 0 ? NearestInteger((groups.x[i][g] + min) / d) : fit.q[i][g];
      q[g * kAffineSize + i] = static_cast<uint8_t>(Clamped(rounded, 0, max_q));
    }
  }
}

// Two groups share 32 bytes, a nibble each.
void PackNibbles(const uint8_t* q, uint8_t* bytes) {
  for (int pair = 0; pair < kSuperBlockValues / 64; ++pair) {
    for (int i = 0; i < 32; ++i) {
      const int low = q[64 * pair + i] & 15;
      const int high = q[64 * pair + 32 + i] & 15;
      bytes[32 * pair + i] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

struct SymmetricScales {
  float d;
  int scale[kSymmetricGroups];
};

// The scale of the largest magnitude becomes -128.
SymmetricScales RoundScales(const SymmetricFit<kSymmetricGroups>& fit) {
  float extreme = 0;
  for (const float scale : fit.scale) {
    if (std::fabs(scale) > std::fabs(extreme)) extreme = scale;
  }
  SymmetricScales scales = {};
  if (std::fabs(extreme) < kTinyGroup) return scales;
  const float inverse = -128.0f / extreme;
  scales.d = 1 / inverse;
  for (int g = 0; g < kSymmetricGroups; ++g) {
    scales.scale[g] = static_cast<int>(Clamped(NearestInteger(inverse * fit.scale[g]), -128, 127));
  }
  return scales;
}

}  // namespace

void QuantizeBlock(const float* values, kernels::BlockQ4_K* block) {
  uint8_t q[kSuperBlockValues];
  QuantizeAffine(values, 15, {.first = -1.0f, .step = 0.1f, .count = 20}, block, q);
  PackNibbles(q, block->qs);
}

void QuantizeBlock(const float* values, kernels::BlockQ5_K* block) {
  uint8_t q[kSuperBlockValues];
  QuantizeAffine(values, 31, {.first = -0.5f, .step = 0.1f, .count = 15}, block, q);
  PackNibbles(q, block->qs);
  std::memset(block->qh, 0, sizeof(block->qh));
  for (int i = 0; i < kSuperBlockValues; ++i)
    block->qh[i % 32] |= static_cast<uint8_t>(q[i] >> 4 << i / 32);
}

void QuantizeBlock(const float* values, kernels::BlockQ6_K* block) {
  const auto groups = TransposedGroups<kSymmetricGroups, kSymmetricSize>(values);
  const auto fit = SymmetricSearch<kSymmetricGroups, kSymmetricSize>(groups, 32).Run(0.1f, 9);
  const SymmetricScales scales = RoundScales(fit);
  std::memset(block, 0, sizeof(*block));
  block->d = ToHalf(scales.d);
  if (scales.d == 0) return;
  for (int i = 0; i < kSuperBlockValues; ++i) {
    const int group = i / kSymmetricSize;
    block->scales[group] = static_cast<int8_t>(scales.scale[group]);
    const float d = RoundedToHalf(scales.d) * static_cast<float>(scales.scale[group]);
    const float rounded = d != 0 ? NearestInteger(values[i] / d) : 0;
    const int q = static_cast<int>(Clamped(rounded, -32, 31)) + 32;
    // Value i: low bits in a nibble of ql, high bits in two bits of qh; a half has 128 values, 4
    // runs of 32.
    const int half = i / 128;
    const int run = i / 32 % 4;
    block->ql[64 * half + 32 * (run % 2) + i % 32] |=
        static_cast<uint8_t>((q & 15) << 4 * (run / 2));
    block->qh[32 * half + i % 32] |= static_cast<uint8_t>(q >> 4 << 2 * run);
  }
}

}  // namespace baton::engine
