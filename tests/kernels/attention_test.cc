// Attention over one chunk: every set gives the scalar set's bits (what is right is tested in
// backend_test.cc).
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernel_set.h"
#include "tests/support/kernel_sets.h"

namespace baton::kernels {
namespace {

struct Shape {
  int32_t key_dim, value_dim;
  bool value_in_key;
  KvType format;
  float softcap;
  int32_t window;
};

std::vector<float> Attend(const KernelSet& set, const Shape& shape) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  constexpr int kBlocks = 3, kQueries = 5;
  const int32_t values = shape.value_in_key ? 0 : shape.value_dim;
  const int64_t elements = int64_t{kKvBlock} * (shape.key_dim + values);
  std::vector<std::vector<uint8_t>> storage(kBlocks, std::vector<uint8_t>(elements * 4));
  std::vector<const uint8_t*> blocks;
  for (std::vector<uint8_t>& block : storage) {
    for (int64_t i = 0; i < elements; ++i) {
      const float f = normal(random);
      const uint16_t half = FloatToHalf(f);
      if (shape.format == KvType::kF32) memcpy(&block[4 * i], &f, 4);
      if (shape.format == KvType::kF16) memcpy(&block[2 * i], &half, 2);
    }
    blocks.push_back(block.data());
  }
  std::vector<float> q(int64_t{kQueries} * shape.key_dim);
  for (float& f : q) f = normal(random);
  const int64_t partial = shape.value_dim + 2;
  std::vector<float> out(2 * kQueries * partial);
  std::vector<AttentionQuery> queries;
  for (int i = 0; i < kQueries; ++i) {
    queries.push_back({.q = &q[i * shape.key_dim],
                       .position = 512 + 17 * i + 3,
                       .alibi_slope = i == 2 ? 0.25f : 0,
                       .partial = &out[i * partial]});
  }
  std::vector<float> scratch(AttentionScratchFloats(shape.key_dim, shape.value_dim));
  set.attend({.format = shape.format,
              .key_dim = shape.key_dim,
              .value_dim = shape.value_dim,
              .value_in_key = shape.value_in_key,
              .scale = 0.2f,
              .softcap = shape.softcap,
              .window = shape.window,
              .chunk_begin = 512,
              .num_blocks = kBlocks,
              .blocks = blocks.data(),
              .num_queries = kQueries,
              .queries = queries.data(),
              .scratch = scratch.data()});
  set.merge_partials(out.data(), &out[partial], shape.value_dim);
  const float sink = 0.5f;
  for (int i = 0; i < kQueries; ++i) {
    set.finish_attention(&out[i * partial], i == 1 ? &sink : nullptr, shape.value_dim,
                         &out[(kQueries + i) * partial]);
  }
  return out;
}

TEST(AttentionTest, AllSetsGiveTheSameBits) {
  const std::vector<Shape> shapes = {
      {64, 64, false, KvType::kF16, 0, 0}, {64, 64, false, KvType::kF32, 0, 0},
      {24, 20, false, KvType::kF16, 3, 0}, {128, 128, false, KvType::kF16, 0, 40},
      {40, 32, true, KvType::kF16, 0, 0},  {40, 33, true, KvType::kF32, 0, 10},
  };
  const auto sets = baton::testing::KernelSetsUnderTest();
  for (const Shape& shape : shapes) {
    const std::vector<float> want = Attend(sets.front().set, shape);
    for (const auto& [name, set] : sets) {
      const std::vector<float> got = Attend(set, shape);
      EXPECT_EQ(memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0)
          << name << " " << shape.key_dim;
    }
  }
}

}  // namespace
}  // namespace baton::kernels
