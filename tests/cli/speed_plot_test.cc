#include "cli/speed_plot.h"

#include <gtest/gtest.h>

#include <vector>

#include "cli/exit_code.h"

namespace baton::cli {
namespace {

int Count(std::string_view text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

BenchResult Decode(int depth, int batch, double rate) {
  return {.test = batch == 1 ? "decode" : "batched_decode",
          .threads = 2,
          .tokens = 8,
          .depth = depth,
          .batch = batch,
          .rates = {rate}};
}

TEST(SpeedPlotTest, DrawsALineForEachBatchAndForEachDepth) {
  std::vector<BenchResult> results = {Decode(0, 1, 40), Decode(0, 16, 160), Decode(4096, 1, 20),
                                      Decode(4096, 16, 60)};
  results.push_back({.test = "prefill", .threads = 2, .tokens = 512, .rates = {900}});
  const std::string svg = DrawSpeedPlot(results);
  EXPECT_EQ(Count(svg, "<polyline"), 4);
  EXPECT_EQ(Count(svg, "<circle"), 8);  // each decode twice, prefill not at all
  EXPECT_EQ(Count(svg, "batch 16</text>"), 1);
  EXPECT_EQ(Count(svg, "depth 4096</text>"), 1);
  EXPECT_EQ(Count(svg, "nan"), 0);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(SpeedPlotTest, SaysWhereItCannotWrite) {
  const absl::Status status = WriteSpeedPlot("/nowhere/plot.svg", {});
  EXPECT_EQ(ExitCodeOf(status), kCannotWrite);
}

}  // namespace
}  // namespace baton::cli
