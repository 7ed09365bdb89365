// Operations over floats: the scalar set against double precision, the other sets against the
// scalar one bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/exact_math.h"
#include "tests/support/kernel_sets.h"

namespace baton::kernels {
namespace {

std::vector<float> RandomRow(int n, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (float& v : row) v = normal(random) * scale;
  return row;
}

double Silu(double x) { return x / (1 + std::exp(-x)); }

// One operation over a row: how a set does it, and what it should give, within `ulps` of the
// largest magnitude around.
struct RowOp {
  std::string name;
  std::function<void(const KernelSet&, const std::vector<float>& a, const std::vector<float>& b,
                     float* out)>
      run;
  std::function<double(const std::vector<float>& a, const std::vector<float>& b, int i)> want;
  double tolerance = 1e-6;  // relative to 1 + |want|
};

RowOp UnaryCase(std::string name, UnaryOp op, double (*want)(double)) {
  return {std::move(name),
          [op](const KernelSet& set, const auto& a, const auto&, float* out) {
            std::copy(a.begin(), a.end(), out);
            set.unary[static_cast<int>(op)](static_cast<int>(a.size()), out);
          },
          [want](const auto& a, const auto&, int i) { return want(a[i]); }};
}

double MeanOf(const std::vector<float>& a) {
  double sum = 0;
  for (float v : a) sum += v;
  return sum / static_cast<double>(a.size());
}
double MeanSquareOf(const std::vector<float>& a, double mean) {
  double sum = 0;
  for (float v : a) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(a.size());
}

std::vector<RowOp> AllOps() {
  const auto size = [](const std::vector<float>& a) { return static_cast<int32_t>(a.size()); };
  return {
      UnaryCase("silu", UnaryOp::kSilu, Silu),
      UnaryCase("gelu tanh", UnaryOp::kGeluTanh,
                [](double x) {
                  return 0.5 * x *
                         (1 + std::tanh(std::sqrt(2 / M_PI) * x * (1 + 0.044715 * x * x)));
                }),
      UnaryCase("gelu erf", UnaryOp::kGeluErf,
                [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }),
      UnaryCase("gelu quick", UnaryOp::kGeluQuick,
                [](double x) { return x / (1 + std::exp(-1.702 * x)); }),
      UnaryCase("relu", UnaryOp::kRelu, [](double x) { return std::max(x, 0.0); }),
      UnaryCase("relu squared", UnaryOp::kReluSquared, [](double x) { return x > 0 ? x * x : 0; }),
      {"gated silu",
       [=](const KernelSet& set, const auto& a, const auto& b, float* out) {
         set.gated[static_cast<int>(UnaryOp::kSilu)](a.data(), b.data(), size(a), out);
       },
       [](const auto& a, const auto& b, int i) { return Silu(a[i]) * b[i]; }, 2e-6},
      {"clamped swiglu",
       [=](const KernelSet& set, const auto& a, const auto& b, float* out) {
         set.gated_swiglu_clamped(a.data(), b.data(), 1.5f, size(a), out);
       },
       [](const auto& a, const auto& b, int i) {
         const double gate = std::min<double>(a[i], 1.5), up = std::clamp<double>(b[i], -1.5, 1.5);
         return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
       }},
      {"rms norm",
       [=](const KernelSet& set, const auto& a, const auto& b, float* out) {
         set.rms_norm(a.data(), size(a), 1e-5f, b.data(), nullptr, out);
       },
       [](const auto& a, const auto& b, int i) {
         return a[i] / std::sqrt(MeanSquareOf(a, 0) + 1e-5) * b[i];
       },
       3e-6},
      {"layer norm",
       [=](const KernelSet& set, const auto& a, const auto& b, float* out) {
         set.layer_norm(a.data(), size(a), 1e-5f, b.data(), b.data(), out);
       },
       [](const auto& a, const auto& b, int i) {
         const double mean = MeanOf(a);
         return (a[i] - mean) / std::sqrt(MeanSquareOf(a, mean) + 1e-5) * b[i] + b[i];
       },
       3e-6},
      {"add scaled",
       [=](const KernelSet& set, const auto& a, const auto& b, float* out) {
         set.add_scaled(a.data(), b.data(), 0.3f, size(a), out);
       },
       [](const auto& a, const auto& b, int i) { return a[i] + double{0.3f} * b[i]; }},
      {"soft cap",
       [=](const KernelSet& set, const auto& a, const auto&, float* out) {
         std::copy(a.begin(), a.end(), out);
         set.soft_cap(2.0f, size(a), out);
       },
       [](const auto& a, const auto&, int i) { return 2 * std::tanh(a[i] / 2.0); }},
      {"clamp",
       [=](const KernelSet& set, const auto& a, const auto&, float* out) {
         std::copy(a.begin(), a.end(), out);
         set.clamp(0.7f, size(a), out);
       },
       [](const auto& a, const auto&, int i) {
         return std::clamp<double>(a[i], -double{0.7f}, double{0.7f});
       }},
  };
}

TEST(FloatOpsTest, ScalarIsCloseToDoubleAndOthersEqualIt) {
  for (const RowOp& op : AllOps()) {
    for (int n : {1, 7, 8, 64, 577}) {
      const std::vector<float> a = RandomRow(n, n, 2), b = RandomRow(n, n + 1);
      std::vector<float> scalar(n), got(n);
      op.run(*FindKernelSet("scalar"), a, b, scalar.data());
      for (int i = 0; i < n; ++i) {
        const double want = op.want(a, b, i);
        EXPECT_NEAR(scalar[i], want, op.tolerance * (1 + std::fabs(want)))
            << op.name << " n=" << n << " i=" << i;
      }
      for (const auto& [name, set] : baton::testing::KernelSetsUnderTest()) {
        op.run(set, a, b, got.data());
        EXPECT_EQ(memcmp(got.data(), scalar.data(), n * sizeof(float)), 0)
            << name << " " << op.name << " n=" << n;
      }
    }
  }
}

TEST(FloatOpsTest, RotationTurnsPairsAndIsTheSameEverywhere) {
  for (int half : {1, 3, 16, 40}) {
    const std::vector<float> x = RandomRow(2 * half, half);
    std::vector<float> cos(half), sin(half);
    for (int i = 0; i < half; ++i) cos[i] = std::cos(0.3f * i), sin[i] = std::sin(0.3f * i);
    for (const auto& [name, set] : baton::testing::KernelSetsUnderTest()) {
      std::vector<float> halves = x, pairs = x;
      set.rope_halves(cos.data(), sin.data(), half, halves.data());
      set.rope_interleaved(cos.data(), sin.data(), half, pairs.data());
      for (int i = 0; i < half; ++i) {
        EXPECT_EQ(halves[i], std::fma(x[i], cos[i], -(x[i + half] * sin[i])));
        EXPECT_EQ(halves[i + half], std::fma(x[i], sin[i], x[i + half] * cos[i]));
        EXPECT_EQ(pairs[2 * i], std::fma(x[2 * i], cos[i], -(x[2 * i + 1] * sin[i])));
        EXPECT_EQ(pairs[2 * i + 1], std::fma(x[2 * i], sin[i], x[2 * i + 1] * cos[i]));
      }
    }
  }
}

TEST(FloatOpsTest, RoundingIsTheSameEverywhere) {
  for (ActivationFormat format : {ActivationFormat::kInt8By32, ActivationFormat::kInt8By256}) {
    const int n = 1024, group = ActivationGroup(format);
    std::vector<float> x = RandomRow(n, 3);
    for (int i = 256; i < 512; ++i) x[i] = 0;        // a group of zeros
    for (int i = 512; i < 768; ++i) x[i] *= 1e-38f;  // too small to divide by
    x[800] = INFINITY;
    x[801] = NAN;
    std::vector<int8_t> want(n);
    for (const auto& [name, set] : baton::testing::KernelSetsUnderTest()) {
      std::vector<int8_t> values(n);
      std::vector<float> scales(n / group);
      std::vector<int16_t> sums(n / 16);
      std::vector<float> left_over(n);
      set.round[static_cast<int>(format)](
          x.data(), n, {values.data(), scales.data(), sums.data(), n}, left_over.data());
      if (name == "scalar") want = values;
      EXPECT_EQ(values, want) << name;
      for (int i = 0; i < 256; ++i)
        EXPECT_EQ(left_over[i], std::fma(-scales[i / group], values[i], x[i])) << name;
      for (int i = 0; i < 256; ++i)
        EXPECT_NEAR(values[i] * scales[i / group], x[i], scales[i / group] * 0.5001);
      for (int i = 0; i < n / 16; ++i) {
        int sum = 0;
        for (int j = 0; j < 16; ++j) sum += values[16 * i + j];
        EXPECT_EQ(sums[i], sum);
      }
    }
  }
}

double Ulps(double got, double want) {
  int exponent;
  std::frexp(static_cast<float>(want), &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, exponent - 24);
}

TEST(ExactMathTest, IsAsCloseAsItSays) {
  for (double x = -87; x < 88.7; x += 0.0137) {
    const auto f = static_cast<float>(x);
    EXPECT_LE(Ulps(Exp(f), std::exp(double{f})), 1) << x;
  }
  for (double x = -9; x < 9; x += 0.00173) {
    const auto f = static_cast<float>(x);
    if (std::fabs(f) < 1e-4) continue;
    EXPECT_LE(Ulps(Tanh(f), std::tanh(double{f})), 2) << x;
    EXPECT_LE(Ulps(Erf(f), std::erf(double{f})), 3) << x;
  }
  for (double x = 1e-310; x < 1e300; x *= 1.37)
    EXPECT_NEAR(Log(x), std::log(x), std::fabs(std::log(x)) * 4e-16) << x;
  for (double x = -1e6; x < 1e6; x += 977.3) {
    EXPECT_NEAR(SinCos(x).sin, std::sin(x), 1e-15) << x;
    EXPECT_NEAR(SinCos(x).cos, std::cos(x), 1e-15) << x;
  }
  EXPECT_EQ(Exp(-INFINITY), 0);
  EXPECT_EQ(Exp(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(Exp(NAN)));
  EXPECT_EQ(Exp(0.0f), 1);
  EXPECT_EQ(Log(1), 0);
  EXPECT_EQ(Log(0), -INFINITY);
}

}  // namespace
}  // namespace baton::kernels
