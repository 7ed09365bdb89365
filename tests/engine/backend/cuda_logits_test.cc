// What CUDA says of rows of logits, emulated with the threads in three orders.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "engine/backend/cuda_backend.h"
#include "tests/support/cuda_emulation.h"
#include "tests/support/emulated_cuda.h"
#include "tests/support/reference_summary.h"

namespace baton::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows that are hard to sort: equal logits, few candidates, none, numbers that are none.
std::vector<float> Logits(int32_t rows, int32_t vocab_size, int32_t stride) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> logits(static_cast<size_t>(rows) * stride,
                            std::numeric_limits<float>::quiet_NaN());
  for (int32_t r = 0; r < rows; ++r) {
    for (int32_t i = 0; i < vocab_size; ++i) {
      const float v = normal(random) * 3;
      logits[r * stride + i] = r == 1   ? std::round(v)
                               : r == 2 ? (i % 200 == 3 ? v : -kInfinity)
                                        : v;
    }
  }
  for (int32_t i = 0; i < vocab_size; ++i) logits[3 * stride + i] = -kInfinity;
  logits[4 * stride + vocab_size - 1] = kInfinity;
  logits[5 * stride + vocab_size / 2] = std::numeric_limits<float>::quiet_NaN();
  logits[1 * stride + 9] = -0.0f;
  return logits;
}

void ExpectSame(const LogitSummary& got, const LogitSummary& want, const LogitQuestion& question) {
  ASSERT_EQ(got.sound, want.sound);
  if (!want.sound) return;
  ASSERT_GE(got.best.size(), want.best.size());  // another row of the batch may have wanted more
  EXPECT_TRUE(got.all || !want.all);
  for (size_t i = 0; i < want.best.size(); ++i) {
    EXPECT_EQ(got.best[i].id, want.best[i].id) << i;
    EXPECT_EQ(std::memcmp(&got.best[i].logit, &want.best[i].logit, 4), 0) << i;
  }
  ASSERT_EQ(got.asked.size(), want.asked.size());
  for (size_t i = 0; i < want.asked.size(); ++i)
    EXPECT_EQ(std::memcmp(&got.asked[i], &want.asked[i], 4), 0) << i;
  if (question.weight_sum && !want.best.empty()) {
    EXPECT_EQ(got.weight_sum, want.weight_sum);
  }
}

TEST(CudaLogitsTest, SummariesAreRight) {
  using cuda_emulation::ThreadOrder;
  struct Shape {
    int32_t vocab_size, best;
    bool weight_sum;
  };
  // One token; less than a part; parts of which the last is short; two passes after the first.
  const Shape shapes[] = {{1, 1, true}, {300, 40, true}, {5000, 7, false}, {20000, 256, true}};
  constexpr int32_t kRows = 7;
  for (const Shape& shape : shapes) {
    const int32_t stride = shape.vocab_size + 3;
    std::vector<float> logits = Logits(kRows, shape.vocab_size, stride);
    std::vector<std::optional<LogitQuestion>> questions(kRows);
    for (int32_t r = 0; r + 1 < kRows; ++r) {
      questions[r] = {.best = r == 0 ? shape.best : 1, .ids = {}, .weight_sum = shape.weight_sum};
      if (r != 2) questions[r]->ids.resize(r + 1, shape.vocab_size - 1);
    }
    for (const ThreadOrder order :
         {ThreadOrder::kForward, ThreadOrder::kReverse, ThreadOrder::kShuffled}) {
      cuda_emulation::SetThreadOrder(order);
      const auto backend = *CudaBackend::Open(testing::EmulatedCuda(), 0);
      ASSERT_TRUE(backend->summarizes_logits());
      const auto summaries =
          backend->SummarizeLogits({logits.data(), kRows, shape.vocab_size, stride}, questions);
      ASSERT_TRUE(backend->Sync().ok());
      ASSERT_EQ(summaries.size(), questions.size());
      for (int32_t r = 0; r + 1 < kRows; ++r) {
        SCOPED_TRACE(fmt::format("{} tokens, row {}", shape.vocab_size, r));
        const std::span row(logits.data() + int64_t{r} * stride, shape.vocab_size);
        ExpectSame(summaries[r], testing::ReferenceSummary(row, *questions[r]), *questions[r]);
      }
      EXPECT_FALSE(summaries[kRows - 1].sound) << "nothing was asked about it";
    }
  }
  cuda_emulation::SetThreadOrder(ThreadOrder::kForward);
}

TEST(CudaLogitsTest, AnErrorLeavesNothingSound) {
  const auto backend = *CudaBackend::Open(testing::EmulatedCuda(), 0);
  std::vector<float> logits(100, 1.0f);
  cuda_emulation::host.next_error = cudaErrorInvalidValue;
  const std::optional<LogitQuestion> question = LogitQuestion{};
  const auto summaries = backend->SummarizeLogits({logits.data(), 1, 100, 100}, {&question, 1});
  ASSERT_EQ(summaries.size(), 1u);
  EXPECT_FALSE(summaries[0].sound);
  EXPECT_FALSE(backend->Sync().ok());
  EXPECT_TRUE(backend->Sync().ok());
}

}  // namespace
}  // namespace baton::engine
