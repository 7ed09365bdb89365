#include "engine/arch/rope.h"

#include <algorithm>
#include <cmath>

#include "engine/arch/double_math.h"

namespace baton::engine {
namespace {

constexpr double kPi = 3.14159265358979323846;

// The pair whose wavelength goes `rotations` times into the original context.
double PairOfRotations(const RopeHyperParams& rope, double rotations) {
  return rope.dims * LogOf(rope.original_context_length / (rotations * 2.0 * kPi)) /
         (2.0 * LogOf(rope.theta));
}

// How much of each frequency is extrapolated (1) rather than interpolated (0).
class YarnRamp {
 public:
  explicit YarnRamp(const RopeHyperParams& rope)
      : low_(std::max(0.0, std::floor(PairOfRotations(rope, rope.beta_fast)))),
        high_(std::min(rope.dims - 1.0, std::ceil(PairOfRotations(rope, rope.beta_slow)))) {}

  double At(int32_t pair) const {
    const double position = (pair - low_) / std::max(0.001, high_ - low_);
    return 1.0 - std::clamp(position, 0.0, 1.0);
  }

 private:
  double low_;
  double high_;
};

}  // namespace

std::vector<float> RopeFrequencies(const RopeHyperParams& rope, std::span<const float> factors) {
  const bool yarn = rope.scaling == RopeScaling::kYarn;
  const double interpolation = rope.scaling == RopeScaling::kNone ? 1.0 : 1.0 / rope.factor;
  const double log_theta = LogOf(rope.theta);
  const YarnRamp ramp(rope);
  std::vector<float> frequencies(rope.dims / 2);
  for (int32_t i = 0; i < rope.dims / 2; ++i) {
    const double divisor = factors.empty() ? 1.0 : factors[i];
    const double base = ExpOf(-2.0 * i / rope.dims * log_theta) / divisor;
    const double extrapolated = yarn ? ramp.At(i) : 0.0;
    frequencies[i] =
        static_cast<float>(base * (interpolation * (1.0 - extrapolated) + extrapolated));
  }
  return frequencies;
}

double RopeMagnitude(const RopeHyperParams& rope) {
  const bool grows =
      rope.scaling == RopeScaling::kYarn && rope.log_multiplier == 0 && rope.factor > 1.0;
  return rope.attention_factor * (grows ? 1.0 + 0.1 * LogOf(rope.factor) : 1.0);
}

double YarnScoreFactor(const RopeHyperParams& rope) {
  const bool grows = rope.scaling == RopeScaling::kYarn && rope.factor > 1.0;
  return grows ? 1.0 + rope.log_multiplier * LogOf(rope.factor) : 1.0;
}

std::vector<float> AlibiSlopes(double max_bias, int32_t num_heads) {
  int32_t power = 1;  // the largest power of two not above num_heads
  while (power * 2 <= num_heads) power *= 2;
  std::vector<float> slopes(num_heads);
  for (int32_t head = 0; head < num_heads; ++head) {
    // Heads beyond the power of two take the odd places of a sequence twice as dense.
    const double exponent = head < power ? -max_bias * (head + 1) / power
                                         : -max_bias * (2 * (head - power) + 1) / (2.0 * power);
    slopes[head] = static_cast<float>(ExpOf(exponent * kLn2));
  }
  return slopes;
}

}  // namespace baton::engine
