#include "engine/arch/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/arch/double_math.h"

namespace baton::engine {
namespace {

TEST(DoubleMathTest, IsCloseToTheLibrary) {
  for (double x = -600; x < 600; x += 7.3) EXPECT_NEAR(ExpOf(x) / std::exp(x), 1.0, 1e-15) << x;
  for (double x = 1e-9; x < 1e12; x *= 3.7) {
    EXPECT_NEAR(LogOf(x), std::log(x), 4e-16 * std::max(1.0, std::abs(std::log(x)))) << x;
  }
  EXPECT_EQ(ExpOf(0), 1.0);
  EXPECT_EQ(LogOf(1), 0.0);
}

// angle(position) = position * base^(-2i/d) / factor
TEST(RopeTest, PlainFrequencies) {
  const RopeHyperParams rope{.dims = 64, .theta = 500000.0};
  const auto frequencies = RopeFrequencies(rope, {});
  ASSERT_EQ(frequencies.size(), 32u);
  for (int i = 0; i < 32; ++i) {
    EXPECT_FLOAT_EQ(frequencies[i], static_cast<float>(std::pow(500000.0, -2.0 * i / 64)));
  }
}

TEST(RopeTest, FactorsDivide) {
  const RopeHyperParams rope{.dims = 4, .theta = 10000.0};
  const std::vector<float> factors = {1.0f, 8.0f};
  const auto frequencies = RopeFrequencies(rope, factors);
  EXPECT_FLOAT_EQ(frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(frequencies[1], 0.01f / 8);
}

TEST(RopeTest, LinearFactorTwoRotatesTenLikeFive) {
  const RopeHyperParams plain{.dims = 16};
  const RopeHyperParams linear{.dims = 16, .scaling = RopeScaling::kLinear, .factor = 2.0};
  const auto a = RopeFrequencies(plain, {});
  const auto b = RopeFrequencies(linear, {});
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(10 * b[i], 5 * a[i]);
}

TEST(RopeTest, NoneIgnoresTheFactor) {
  const RopeHyperParams rope{.dims = 16, .scaling = RopeScaling::kNone, .factor = 2.0};
  EXPECT_EQ(RopeFrequencies(rope, {}), RopeFrequencies({.dims = 16}, {}));
}

TEST(RopeTest, YarnKeepsFastPairsAndInterpolatesSlowOnes) {
  const RopeHyperParams yarn{.dims = 64,
                             .theta = 10000.0,
                             .scaling = RopeScaling::kYarn,
                             .factor = 4.0,
                             .original_context_length = 4096};
  const auto plain = RopeFrequencies({.dims = 64, .theta = 10000.0}, {});
  const auto scaled = RopeFrequencies(yarn, {});
  EXPECT_EQ(scaled.front(), plain.front());
  EXPECT_FLOAT_EQ(scaled.back(), plain.back() / 4);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(scaled[i], plain[i]);
    EXPECT_GE(scaled[i], plain[i] / 4 * 0.999999f);
  }
}

TEST(RopeTest, YarnMagnitude) {
  EXPECT_NEAR(RopeMagnitude({.scaling = RopeScaling::kYarn, .factor = 4.0}), 1.138629, 1e-6);
  EXPECT_NEAR(RopeMagnitude({.scaling = RopeScaling::kYarn, .factor = 64.0}), 1.415888, 1e-6);
  EXPECT_EQ(RopeMagnitude({.scaling = RopeScaling::kLinear, .factor = 4.0}), 1.0);
  EXPECT_EQ(RopeMagnitude({.attention_factor = 1.19}), 1.19);
  // With a log multiplier the growth is in the scores instead.
  const RopeHyperParams multiplied{
      .scaling = RopeScaling::kYarn, .factor = 4.0, .log_multiplier = 0.0707};
  EXPECT_EQ(RopeMagnitude(multiplied), 1.0);
  EXPECT_NEAR(YarnScoreFactor(multiplied), 1.0 + 0.0707 * std::log(4.0), 1e-12);
}

TEST(AlibiTest, SlopesOfPowersOfTwoAndOthers) {
  EXPECT_EQ(AlibiSlopes(8, 4), (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  const auto six = AlibiSlopes(8, 6);
  EXPECT_FLOAT_EQ(six[0], 0.25f);
  EXPECT_FLOAT_EQ(six[4], 0.5f);
  EXPECT_FLOAT_EQ(six[5], 0.125f);
}

}  // namespace
}  // namespace baton::engine
