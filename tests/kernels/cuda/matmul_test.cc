// CUDA's products, emulated: every weight type gives the scalar CPU's bits, whatever the shape, the
// number of rows and the order in which threads run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cuda/device_layout.h"
#include "tests/support/cuda_emulation.h"
#include "tests/support/emulated_cuda.h"
#include "tests/support/random_blocks.h"

namespace baton::kernels {
namespace {

using baton::testing::EmulatedCuda;
using cuda_emulation::ThreadOrder;

constexpr ThreadOrder kOrders[] = {ThreadOrder::kForward, ThreadOrder::kReverse,
                                   ThreadOrder::kShuffled};

// Memory on boundaries of 64 bytes, of exactly the size asked for.
template <class T>
class AlignedArray {
 public:
  explicit AlignedArray(size_t count) : storage_(count * sizeof(T) + 64) {
    const auto at = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = reinterpret_cast<T*>((at + 63) / 64 * 64);
  }
  T* get() { return data_; }

 private:
  std::vector<std::byte> storage_;
  T* data_;
};

struct Rounded {
  Rounded(ActivationFormat format, int32_t rows, int32_t cols)
      : group(ActivationGroup(format)),
        values(rows * RoundedStride(cols)),
        scales(group > 0 ? rows * (cols / group) : 0),
        sums(rows * (cols / 16) + 1),
        view{values.get(), scales.data(), sums.data(), RoundedStride(cols)} {}
  int group;
  AlignedArray<int8_t> values;
  std::vector<float> scales;
  std::vector<int16_t> sums;
  RoundedRows view;
};

void RoundByCpu(ActivationFormat format, const std::vector<float>& x, int32_t cols, Rounded& to) {
  if (to.group == 0) return;
  const KernelSet& scalar = *FindKernelSet("scalar");
  for (int64_t r = 0; r * cols < static_cast<int64_t>(x.size()); ++r) {
    scalar.round[static_cast<int>(format)](
        &x[r * cols], cols,
        {to.view.values + r * to.view.stride, to.view.scales + r * (cols / to.group),
         to.view.sums + r * (cols / 16), to.view.stride},
        nullptr);
  }
}

std::vector<float> RandomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random) * (random() % 50 == 0 ? 20.0f : 1.0f);
  return values;
}

struct Shape {
  int32_t k, n, m;
};

class CudaMatMulTest : public ::testing::TestWithParam<QuantType> {
 protected:
  QuantType type() const { return GetParam(); }
  ActivationFormat format() const { return TraitsOf(type()).activation; }

  void Check(const Shape& s) {
    std::mt19937 random(static_cast<uint32_t>(s.k * 1000 + s.n * 50 + s.m));
    const std::vector<uint8_t> weight = testing::RandomBlocks(type(), int64_t{s.n} * s.k, random);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(s.m) * s.k, 2);
    const std::vector<float> bias = RandomFloats(s.n, 3);
    Rounded rounded(format(), s.m, s.k);
    RoundByCpu(format(), x, s.k, rounded);

    std::vector<float> want(static_cast<size_t>(s.m) * s.n);
    AlignedArray<std::byte> scratch(kScratchBytes);
    FindKernelSet("scalar")->matmul[static_cast<int>(type())](
        {.weight = weight.data(),
         .weight_row_bytes = RowBytes(type(), s.k),
         .cols = s.k,
         .end = s.n,
         .rows = s.m,
         .x = x.data(),
         .x_stride = s.k,
         .rounded = rounded.view,
         .bias = bias.data(),
         .out = want.data(),
         .out_stride = s.n,
         .scratch = scratch.get()});

    const int64_t row_bytes = DeviceRowBytes(type(), s.k);
    AlignedArray<uint8_t> device(s.n * row_bytes);
    for (int32_t n = 0; n < s.n; ++n) {
      LayOutRow(type(), s.k, weight.data() + n * RowBytes(type(), s.k),
                device.get() + n * row_bytes);
    }
    for (const ThreadOrder order : kOrders) {
      cuda_emulation::SetThreadOrder(order);
      std::vector<float> got(want.size(), NAN);
      EmulatedCuda().matmul({.type = type(),
                             .cols = s.k,
                             .row_bytes = row_bytes,
                             .targets = {{.weight = device.get(),
                                          .outs = s.n,
                                          .bias = bias.data(),
                                          .out = got.data(),
                                          .out_stride = s.n}},
                             .rows = s.m,
                             .x = x.data(),
                             .x_stride = s.k,
                             .rounded = rounded.view},
                            nullptr);
      ASSERT_EQ(memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
          << "K=" << s.k << " N=" << s.n << " M=" << s.m << ", order " << static_cast<int>(order);
    }
    cuda_emulation::SetThreadOrder(ThreadOrder::kForward);
  }
};

TEST_P(CudaMatMulTest, GivesTheBitsOfTheScalarCpu) {
  const int32_t block = TraitsOf(type()).block_size;
  const Shape shapes[] = {
      {block == 1 ? 37 : block, 1, 1},      {block == 1 ? 300 : 5 * block, 9, 2},
      {block == 1 ? 264 : 3 * block, 6, 4}, {block == 1 ? 136 : block == 32 ? 2144 : 2304, 5, 3},
      {block == 1 ? 70 : 3 * block, 70, 9}, {block == 1 ? 128 : 5 * block, 33, 67},
  };
  for (const Shape& shape : shapes) Check(shape);
}

std::vector<QuantType> TypesWithKernels() {
  std::vector<QuantType> types;
  for (uint32_t id = 0; id < kNumQuantTypes; ++id) {
    if (EmulatedCuda().has_matmul(static_cast<QuantType>(id)))
      types.push_back(static_cast<QuantType>(id));
  }
  return types;
}
INSTANTIATE_TEST_SUITE_P(Types, CudaMatMulTest, ::testing::ValuesIn(TypesWithKernels()),
                         [](const auto& type) { return std::string(TraitsOf(type.param).name); });

TEST(CudaMatMulTypesTest, AreThoseOfTheCpu) {
  for (uint32_t id = 0; id < kNumQuantTypes; ++id) {
    EXPECT_EQ(EmulatedCuda().has_matmul(static_cast<QuantType>(id)),
              FindKernelSet("scalar")->matmul[id] != nullptr)
        << id;
  }
}

class CudaRoundTest : public ::testing::TestWithParam<ActivationFormat> {};

TEST_P(CudaRoundTest, GivesTheBitsOfTheScalarCpu) {
  const ActivationFormat format = GetParam();
  const int32_t rows = 3, cols = 512;
  std::vector<float> x = RandomFloats(static_cast<size_t>(rows) * cols, 4);
  for (int i = 0; i < 256; ++i) x[i] = i == 7 ? 1e-35f : 0;  // too small to divide by
  Rounded want(format, rows, cols);
  RoundByCpu(format, x, cols, want);
  std::vector<float> rest(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float scale = want.scales[i / want.group];
    rest[i] = std::fma(
        -scale, static_cast<float>(want.view.values[i / cols * want.view.stride + i % cols]), x[i]);
  }
  Rounded want_rest(format, rows, cols);
  RoundByCpu(format, rest, cols, want_rest);

  for (const ThreadOrder order : kOrders) {
    cuda_emulation::SetThreadOrder(order);
    Rounded got(format, 2 * rows, cols);
    EmulatedCuda().round({x.data(), rows, cols, cols},
                         {.format = format, .fine = true, .rows = got.view}, nullptr);
    for (int32_t r = 0; r < 2 * rows; ++r) {
      Rounded& expected = r % 2 == 0 ? want : want_rest;
      const int32_t from = r / 2, groups = cols / got.group;
      EXPECT_EQ(memcmp(got.view.values + r * got.view.stride,
                       expected.view.values + from * got.view.stride, cols),
                0);
      EXPECT_EQ(memcmp(&got.scales[r * groups], &expected.scales[from * groups], groups * 4), 0);
      EXPECT_EQ(memcmp(&got.sums[r * (cols / 16)], &expected.sums[from * (cols / 16)], cols / 8),
                0);
    }
  }
  cuda_emulation::SetThreadOrder(ThreadOrder::kForward);
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaRoundTest,
                         ::testing::Values(ActivationFormat::kInt8By32,
                                           ActivationFormat::kInt8By256),
                         [](const auto& test) {
                           return "By" + std::to_string(ActivationGroup(test.param));
                         });

}  // namespace
}  // namespace baton::kernels
