// Every weight type on every instruction set of this machine: close to exact arithmetic, and the
// scalar set's bits whatever the shape, the number of rows and the cut into columns.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/unpack.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/random_blocks.h"

namespace baton::kernels {
namespace {

struct Problem {
  QuantType type;
  int32_t k, n, m;
  std::vector<uint8_t> weight;
  std::vector<float> x, bias;
  bool fine = false;                                // two rounded rows an activation row
  std::vector<int32_t> x_rows = {}, out_rows = {};  // as MatMulArgs says; empty: none
};

Problem MakeProblem(QuantType type, int32_t k, int32_t n, int32_t m, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Problem p{.type = type, .k = k, .n = n, .m = m, .weight = {}, .x = {}, .bias = {}};
  p.weight = baton::testing::RandomBlocks(type, int64_t{n} * k, random);
  p.x.resize(static_cast<size_t>(m) * k);
  for (float& v : p.x) v = normal(random) * (random() % 50 == 0 ? 20.0f : 1.0f);
  p.bias.resize(n);
  for (float& v : p.bias) v = normal(random);
  return p;
}

// The product by one set, columns cut at `cuts`.
std::vector<float> Multiply(const KernelSet& set, const Problem& p,
                            const std::vector<int32_t>& cuts) {
  const ActivationFormat format = TraitsOf(p.type).activation;
  const int group = ActivationGroup(format);
  const int64_t stride = RoundedStride(p.k);
  const int each = p.fine ? 2 : 1;
  const int32_t rows = p.m * each;
  std::vector<int8_t> values(rows * stride);
  std::vector<float> scales(group > 0 ? rows * (p.k / group) : 0), left_over(p.k);
  std::vector<int16_t> sums(rows * (p.k / 16));
  const auto round = [&](const float* x, int32_t r, float* rest) {
    set.round[static_cast<int>(format)](
        x, p.k,
        {values.data() + r * stride, scales.data() + r * (p.k / group),
         sums.data() + r * (p.k / 16), stride},
        rest);
  };
  for (int32_t r = 0; group > 0 && r < p.m; ++r) {
    round(p.x.data() + int64_t{r} * p.k, each * r, left_over.data());
    if (p.fine) round(left_over.data(), each * r + 1, nullptr);
  }
  const bool scattered = !p.x_rows.empty();
  const size_t out_size = scattered ? p.out_rows.size() : p.m;
  std::vector<float> out(out_size * p.n, NAN);
  std::vector<std::byte> scratch(kScratchBytes + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, kScratchBytes, aligned, space);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    set.matmul[static_cast<int>(p.type)](
        {.weight = p.weight.data(),
         .weight_row_bytes = RowBytes(p.type, p.k),
         .cols = p.k,
         .begin = cuts[i],
         .end = cuts[i + 1],
         .rows = scattered ? static_cast<int32_t>(p.x_rows.size()) : rows,
         .fine = p.fine,
         .x_rows = scattered ? p.x_rows.data() : nullptr,
         .out_rows = scattered ? p.out_rows.data() : nullptr,
         .x = p.x.data(),
         .x_stride = p.k,
         .rounded = {values.data(), scales.data(), sums.data(), stride},
         .bias = p.bias.data(),
         .out = out.data(),
         .out_stride = p.n,
         .scratch = aligned});
  }
  return out;
}

std::vector<QuantType> TypesWithKernels() {
  std::vector<QuantType> types;
  for (uint32_t id = 0; id < kNumQuantTypes; ++id) {
    if (kQuantTraits[id].activation != ActivationFormat::kNone)
      types.push_back(static_cast<QuantType>(id));
  }
  return types;
}

// Activation rows: all kinds of tiles and remainders; fewer where each instruction is emulated.
#ifdef BATON_EMULATED_CPU
constexpr int32_t kRows[] = {1, 2, 7};
constexpr int32_t kScatteredRows = 20;
#else
constexpr int32_t kRows[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 40};
constexpr int32_t kScatteredRows = 530;  // more than pass a panel at a time
#endif

class MatMulTest : public ::testing::TestWithParam<QuantType> {};

// The error is at most what rounding the activations costs: half a step in each, times the weight.
TEST_P(MatMulTest, ScalarIsCloseToExactArithmetic) {
  const KernelSet& scalar = *FindKernelSet("scalar");
  const Problem p = MakeProblem(GetParam(), 512, 19, 3, 7);
  const std::vector<float> got = Multiply(scalar, p, {0, 16, 19});
  std::vector<float> w(p.k);
  for (int32_t n = 0; n < p.n; ++n) {
    scalar.unpack_row[static_cast<int>(p.type)](p.weight.data() + n * RowBytes(p.type, p.k), p.k,
                                                w.data());
    for (int32_t m = 0; m < p.m; ++m) {
      const float* x = p.x.data() + m * p.k;
      const int group = ActivationGroup(TraitsOf(p.type).activation);
      double want = p.bias[n], magnitude = std::fabs(p.bias[n]), bound = 0;
      for (int32_t k = 0; k < p.k; ++k) {
        want += double{w[k]} * x[k];
        magnitude += std::fabs(double{w[k]} * x[k]);
        float largest = 0;
        for (int i = 0; i < group; ++i)
          largest = std::max(largest, std::fabs(x[k / group * group + i]));
        bound += std::fabs(w[k]) * largest / 127 * 0.5001;
      }
      bound += magnitude * p.k * 6e-8;
      EXPECT_NEAR(got[m * p.n + n], want, bound);
    }
  }
}

TEST_P(MatMulTest, AllSetsGiveTheSameBits) {
  const KernelSet& scalar = *FindKernelSet("scalar");
  const int32_t block = TraitsOf(GetParam()).block_size;
  const auto sets = baton::testing::KernelSetsUnderTest();
  for (int32_t k : {block == 1 ? 37 : block, 3 * block, block == 1 ? 192 : 768}) {
    for (int32_t n : {1, 16, 37}) {
      for (int32_t m : kRows) {
        const Problem p = MakeProblem(GetParam(), k, n, m, k * 1000 + n * 50 + m);
        const std::vector<float> want = Multiply(scalar, p, {0, n});
        for (const auto& [name, set] : sets) {
          const std::vector<float> got = Multiply(set, p, {0, std::min(n, 16), n});
          ASSERT_EQ(memcmp(want.data(), got.data(), want.size() * 4), 0)
              << name << " K=" << k << " N=" << n << " M=" << m;
        }
      }
    }
  }
}

// The sum of two products, and as close to exact arithmetic as that makes it.
TEST_P(MatMulTest, FineProductsAddWhatRoundingLeftOver) {
  if (ActivationGroup(TraitsOf(GetParam()).activation) == 0) return;
  const auto sets = baton::testing::KernelSetsUnderTest();
  for (int32_t m : {1, 2, 5}) {
    Problem p = MakeProblem(GetParam(), 512, 37, m, 11 + m);
    p.fine = true;
    const std::vector<float> want = Multiply(*FindKernelSet("scalar"), p, {0, 37});
    for (const auto& [name, set] : sets) {
      const std::vector<float> got = Multiply(set, p, {0, 16, 37});
      ASSERT_EQ(memcmp(want.data(), got.data(), want.size() * 4), 0) << name << " M=" << m;
    }
    std::vector<float> w(p.k);
    for (int32_t n = 0; n < p.n; ++n) {
      FindKernelSet("scalar")->unpack_row[static_cast<int>(p.type)](
          p.weight.data() + n * RowBytes(p.type, p.k), p.k, w.data());
      double exact = p.bias[n], magnitude = std::fabs(p.bias[n]);
      for (int32_t k = 0; k < p.k; ++k) {
        exact += double{w[k]} * p.x[k];
        magnitude += std::fabs(double{w[k]} * p.x[k]);
      }
      EXPECT_NEAR(want[n], exact, magnitude * 3e-4) << n;
    }
  }
}

// A row's bits don't depend on the other rows.
TEST_P(MatMulTest, RowsAreIndependent) {
  for (const auto& [name, set] : baton::testing::KernelSetsUnderTest()) {
    const Problem all = MakeProblem(GetParam(), 256, 33, 9, 5);
    const std::vector<float> together = Multiply(set, all, {0, 33});
    for (int32_t r = 0; r < all.m; ++r) {
      Problem one = all;
      one.m = 1;
      one.x.assign(all.x.begin() + r * all.k, all.x.begin() + (r + 1) * all.k);
      const std::vector<float> alone = Multiply(set, one, {0, 16, 32, 33});
      ASSERT_EQ(memcmp(alone.data(), together.data() + r * all.n, alone.size() * 4), 0)
          << name << " row " << r;
    }
  }
}

// As experts want it: activation rows taken in any order, and again, and outputs put anywhere.
TEST_P(MatMulTest, RowsStandAnywhere) {
  constexpr int32_t kActivations = 7, kColumns = 17;
  const Problem plain = MakeProblem(GetParam(), 256, kColumns, kActivations, 3);
  const std::vector<float> want = Multiply(*FindKernelSet("scalar"), plain, {0, kColumns});
  Problem scattered = plain;
  for (int32_t i = 0; i < kScatteredRows; ++i) {
    scattered.x_rows.push_back(i * 5 % kActivations);
    scattered.out_rows.push_back(kScatteredRows - 1 - i);
  }
  for (const auto& [name, set] : baton::testing::KernelSetsUnderTest()) {
    const std::vector<float> got = Multiply(set, scattered, {0, kColumns});
    for (int32_t i = 0; i < kScatteredRows; ++i) {
      ASSERT_EQ(memcmp(got.data() + scattered.out_rows[i] * kColumns,
                       want.data() + scattered.x_rows[i] * kColumns, kColumns * sizeof(float)),
                0)
          << name << " row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatMulTest, ::testing::ValuesIn(TypesWithKernels()),
                         [](const auto& type) { return std::string(TraitsOf(type.param).name); });

}  // namespace
}  // namespace baton::kernels
