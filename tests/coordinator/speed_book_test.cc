#include "coordinator/speed_book.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace baton::coordinator {
namespace {

TEST(SpeedOf, SplitsAStepIntoReadingAndRows) {
  // 1 GB at 10 GB/s and 2 GFLOP a row at 100 GFLOP/s: 100 ms and 20 ms a row.
  const engine::StageCost cost{.read_bytes_per_token = 1'000'000'000,
                               .flops_per_token = 2'000'000'000};
  const auto speed = SpeedOf(cost, {.one_row_us = 120e3,
                                    .many_rows_us = 260e3,
                                    .many_rows = 8,
                                    .prompt_us = 640e3,
                                    .prompt_rows = 64,
                                    .alone_us = 70e3});
  ASSERT_TRUE(speed);
  EXPECT_NEAR(speed->read_bytes_per_s, 10e9, 1e3);
  EXPECT_NEAR(speed->flops_per_s, 100e9, 1e3);
  EXPECT_NEAR(speed->prompt_flops_per_s, 200e9, 1e3);
  EXPECT_NEAR(speed->alone_read_bytes_per_s, 20e9, 1e3);
}

TEST(SpeedOf, NoiseGivesNoNonsense) {
  const engine::StageCost cost{.read_bytes_per_token = 1000, .flops_per_token = 2000};
  // Eight rows faster than one.
  const auto speed = SpeedOf(cost, {.one_row_us = 100, .many_rows_us = 90, .many_rows = 8});
  ASSERT_TRUE(speed);
  EXPECT_GT(speed->read_bytes_per_s, 0);
  EXPECT_GT(speed->flops_per_s, 0);
  EXPECT_FALSE(SpeedOf(cost, {}));
}

TEST(SpeedBook, KeepsWhatItWasToldByFingerprint) {
  const testing::TempDir dir;
  SpeedBook book = SpeedBook::Open(dir.path(), "model-a");
  book.Note("left", "cpu (avx2, 1 threads)", {1, 2, 3, 4});
  book.Note("left", "cpu (avx2, 2 threads)", {4, 5, 6, 7});
  book.NoteLink("left", "right", {0.5, 7});
  ASSERT_TRUE(book.Save().ok()) << book.Save();

  const SpeedBook again = SpeedBook::Open(dir.path(), "model-a");
  EXPECT_EQ(again.Find("left", "cpu (avx2, 1 threads)")->flops_per_s, 2);
  EXPECT_EQ(again.Find("left", "")->prompt_flops_per_s, 6) << "the newest";
  EXPECT_FALSE(again.Find("left", "cpu (scalar, 1 threads)"));
  EXPECT_FALSE(again.Find("right", ""));
  EXPECT_EQ(again.FindLink("right", "left")->bytes_per_s, 7) << "both ways";
  EXPECT_FALSE(SpeedBook::Open(dir.path(), "model-b").Find("left", ""));
}

TEST(SpeedBook, DamagedFilesAreAsGoodAsNone) {
  const testing::TempDir dir;
  SpeedBook book = SpeedBook::Open(dir.path(), "m");
  ASSERT_TRUE(book.Save().ok());
  for (const char* text : {"", "[", "[]", "{\"workers\": 3}", "{\"workers\": [3, {}]}",
                           "{\"workers\": [{\"worker\": 1, \"read_bytes_per_s\": \"x\"}]}",
                           "{\"links\": [null], \"workers\": {}}"}) {
    std::ofstream(dir.path() + "/speeds/m.json") << text;
    EXPECT_FALSE(SpeedBook::Open(dir.path(), "m").Find("left", "")) << text;
  }
}

}  // namespace
}  // namespace baton::coordinator
