#include "engine/backend/cpu_peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>

#include "engine/base/thread_pool.h"
#include "kernels/cpu/dispatch.h"

namespace baton::engine {

absl::StatusOr<double> MeasureInt8OpsPerSecond(int threads) {
  constexpr int kTries = 5;
  constexpr int64_t kRounds = 1 << 20;  // some milliseconds
  const char* forced = std::getenv("BATON_ISA");
  const kernels::KernelSet* set = kernels::FindKernelSet(forced != nullptr ? forced : "");
  if (set == nullptr) return InvalidArgument("BATON_ISA: '{}' is not there", forced);
  ThreadPool pool(threads);
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    std::atomic<int64_t> operations = 0;
    const auto begin = std::chrono::steady_clock::now();
    pool.Run([&](int) { operations += set->multiply_registers(kRounds); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(operations) / took.count());
  }
  return best;
}

}  // namespace baton::engine
