#include "cli/machine_speed.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/thread_pool.h"

namespace baton::cli {
namespace {

constexpr int kRounds = 3;
constexpr size_t kReadBytes = size_t{256} << 20;  // far beyond caches

uint64_t Sum(const uint64_t* words, int64_t begin, int64_t end) {
  uint64_t sums[8] = {};
  for (int64_t i = begin; i + 8 <= end; i += 8) {
    for (int j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

// The shortest of some rounds, in seconds.
template <typename Work>
double ShortestSeconds(const Work& work) {
  double shortest = 1e30;
  for (int i = 0; i < kRounds; ++i) {
    const absl::Time begin = absl::Now();
    work();
    shortest = std::min(shortest, absl::ToDoubleSeconds(absl::Now() - begin));
  }
  return shortest;
}

}  // namespace

double MeasureReadBytesPerSecond(int threads) {
  const std::vector<uint64_t> words(kReadBytes / sizeof(uint64_t), 1);
  engine::ThreadPool pool(threads);
  std::atomic<uint64_t> sink = 0;
  const double seconds = ShortestSeconds([&] {
    pool.Run([&](int thread) {
      const engine::Share share =
          engine::ShareOf(static_cast<int64_t>(words.size()), thread, threads, 8);
      sink += Sum(words.data(), share.begin, share.end);
    });
  });
  return static_cast<double>(kReadBytes) / seconds;
}

absl::StatusOr<double> MeasureInt8OpsPerSecond(int threads) {
  // 1 MiB of weights a thread, more rows than any blocking needs.
  constexpr int32_t kCols = 2048, kOutputs = 512, kRows = 256;
  const int32_t outputs = kOutputs * threads;
  constexpr auto kType = kernels::QuantType::kQ8_0;
  const std::vector<std::byte> blocks(
      static_cast<size_t>(kernels::RowBytes(kType, kCols) * outputs));
  ASSIGN_OR_RETURN(const auto backend, engine::MakeBackend({.device = "cpu", .threads = threads}));
  ASSIGN_OR_RETURN(const engine::Weight weight, backend->Prepare({.name = "bench",
                                                                  .type = kType,
                                                                  .ne = {kCols, outputs, 1, 1},
                                                                  .data = blocks.data(),
                                                                  .bytes = blocks.size()}));
  std::vector<float> x(size_t{kRows} * kCols, 1.0f), out(static_cast<size_t>(kRows) * outputs);
  const engine::Activations in = {.data = x.data(), .rows = kRows, .cols = kCols, .stride = kCols};
  const engine::MatMulTarget target = {
      .weight = &weight,
      .bias = nullptr,
      .out = {.data = out.data(), .rows = kRows, .cols = outputs, .stride = outputs}};
  const double seconds = ShortestSeconds([&] {
    backend->MatMul(in, std::span(&target, 1));
    backend->Sync();
  });
  return 2.0 * kRows * kCols * outputs / seconds;
}

}  // namespace baton::cli
