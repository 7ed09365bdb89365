#include "engine/gguf/split_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::engine {
namespace {

using ::testing::ElementsAre;

std::vector<TensorInfo> TensorsOf(const std::vector<uint64_t>& sizes) {
  std::vector<TensorInfo> tensors(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) tensors[i].bytes = sizes[i];
  return tensors;
}

TEST(SplitPlanTest, ByCount) {
  struct Case {
    std::vector<uint64_t> sizes;
    size_t parts;
    SplitPlan plan;
  };
  const Case cases[] = {
      {{1, 1, 1, 1}, 2, {{0, 1}, {2, 3}}},
      {{1, 1, 1}, 3, {{0}, {1}, {2}}},
      {{100, 1, 1}, 2, {{0}, {1, 2}}},
      {{1, 1, 100}, 2, {{0, 1}, {2}}},
      {{100, 1, 1}, 3, {{0}, {1}, {2}}},
      {{0, 0, 0}, 2, {{0, 1}, {2}}},
      {{5}, 1, {{0}}},
      {{}, 1, {{}}},
  };
  for (const Case& test : cases) {
    const auto plan = SplitByCount(TensorsOf(test.sizes), test.parts);
    ASSERT_TRUE(plan.ok()) << Message(plan.status());
    EXPECT_EQ(*plan, test.plan);
  }
  EXPECT_FALSE(SplitByCount(TensorsOf({1, 1}), 3).ok());
  EXPECT_FALSE(SplitByCount(TensorsOf({1, 1}), 0).ok());
}

TEST(SplitPlanTest, BySize) {
  EXPECT_EQ(SplitBySize(TensorsOf({3, 3, 3, 9, 1}), 6).value(), (SplitPlan{{0, 1}, {2}, {3}, {4}}));
  EXPECT_EQ(SplitBySize(TensorsOf({3, 3}), UINT64_MAX).value(), (SplitPlan{{0, 1}}));
  EXPECT_FALSE(SplitBySize(TensorsOf({3}), 0).ok());
}

TEST(SplitPlanTest, ByStagesSharesWhatSeveralNeed) {
  // 0: the first and the last stage's, as a tied embedding; 1: everybody's; 2 to 4: one stage's; 5:
  // nobody's.
  const std::vector<TensorInfo> tensors = TensorsOf({1, 1, 1, 1, 1, 1});
  const std::vector<std::vector<size_t>> stages = {{0, 1, 2}, {1, 3}, {0, 1, 4, 0}};
  EXPECT_THAT(SplitByStages(tensors, stages).value(),
              ElementsAre(ElementsAre(), ElementsAre(2), ElementsAre(3), ElementsAre(4),
                          ElementsAre(1), ElementsAre(0), ElementsAre(5)));
}

}  // namespace
}  // namespace baton::engine
