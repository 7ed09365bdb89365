// From a model's numbers to the angles of its positions.
#pragma once

#include <span>
#include <vector>

#include "engine/arch/hyperparams.h"

namespace baton::engine {

// Frequencies of the dims / 2 pairs, scaling included: angle = position * frequency. `factors`
// divide them one by one (rope_freqs.weight and the like); empty: none. YaRN after Peng et al.
// 2023, https://arxiv.org/abs/2309.00071.
std::vector<float> RopeFrequencies(const RopeHyperParams& rope, std::span<const float> factors);

// By how much rotated numbers grow (YaRN's attention temperature, or the file's attention factor).
double RopeMagnitude(const RopeHyperParams& rope);

// By how much queries and keys each grow where a file has YaRN's log multiplier (DeepSeek-V2's
// mscale).
double YarnScoreFactor(const RopeHyperParams& rope);

// Slopes of ALiBi (Press et al. 2021, https://arxiv.org/abs/2108.12409), one a head.
std::vector<float> AlibiSlopes(double max_bias, int32_t num_heads);

}  // namespace baton::engine
