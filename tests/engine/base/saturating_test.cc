#include "engine/base/saturating.h"

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kHalf = uint64_t{1} << 32;

static_assert(SaturatingSum({}) == 0 && SaturatingProduct({}) == 1);

TEST(Saturating, CountsAsUsualWhereItFits) {
  EXPECT_EQ(SaturatingSum({1, 2, 3}), 6u);
  EXPECT_EQ(SaturatingSum({kMost - 1, 1}), kMost);
  EXPECT_EQ(SaturatingProduct({2, 3, 5}), 30u);
  EXPECT_EQ(SaturatingProduct({kHalf, kHalf - 1}), kMost - kHalf + 1);
}

TEST(Saturating, StaysAtTheLargestNumber) {
  EXPECT_EQ(SaturatingSum({kMost, 1}), kMost);
  EXPECT_EQ(SaturatingSum({kMost, kMost, 5}), kMost);
  EXPECT_EQ(SaturatingProduct({kHalf, kHalf}), kMost);
  EXPECT_EQ(SaturatingProduct({kHalf, kHalf, 2}), kMost);  // wraps to 0 on the way
  EXPECT_EQ(SaturatingProduct({kHalf, kHalf, 0}), 0u);
}

}  // namespace
}  // namespace baton::engine
