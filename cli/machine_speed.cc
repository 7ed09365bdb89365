#include "cli/machine_speed.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "engine/base/steady_time.h"
#include "engine/base/thread_pool.h"

namespace baton::cli {
namespace {

constexpr int kRounds = 3;
constexpr size_t kReadBytes = size_t{256} << 20;  // far beyond caches
constexpr int64_t kAhead = 64;                    // words

// `Streams` places are read side by side.
template <int Streams>
uint64_t Sum(const uint64_t* words, int64_t count) {
  const int64_t each = count / Streams / 8 * 8;
  uint64_t sums[8] = {};
  for (int64_t i = 0; i < each; i += 8) {
    for (int s = 0; s < Streams; ++s) {
      const uint64_t* at = words + s * each + i;
      __builtin_prefetch(at + kAhead);  // as the kernels do, which else would read faster
      for (int j = 0; j < 8; ++j) sums[j] += at[j];
    }
  }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

constexpr decltype(&Sum<1>) kSums[] = {Sum<1>, Sum<4>, Sum<8>};  // which is fastest differs

// The shortest of some rounds, in seconds.
template <typename Work>
double ShortestSeconds(const Work& work) {
  double shortest = 1e30;
  for (int i = 0; i < kRounds; ++i) {
    const absl::Time begin = SteadyNow();
    work();
    shortest = std::min(shortest, absl::ToDoubleSeconds(SteadyNow() - begin));
  }
  return shortest;
}

}  // namespace

double MeasureReadBytesPerSecond(int threads) {
  const std::vector<uint64_t> words(kReadBytes / sizeof(uint64_t), 1);
  engine::ThreadPool pool(threads);
  std::atomic<uint64_t> sink = 0;
  double seconds = 1e30;
  for (const auto sum : kSums) {
    seconds = std::min(seconds, ShortestSeconds([&] {
                         pool.Run([&](int thread) {
                           const engine::Share share = engine::ShareOf(
                               static_cast<int64_t>(words.size()), thread, threads, 8);
                           sink += sum(words.data() + share.begin, share.end - share.begin);
                         });
                       }));
  }
  return static_cast<double>(kReadBytes) / seconds;
}

}  // namespace baton::cli
