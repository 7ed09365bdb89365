// Speed of each weight type's matmul on each instruction set of this machine, one thread: GOP/s,
// and for one row the GB/s of weights read from memory, which `baton bench -t 1` says the bound of.
// Run with --benchmark_filter=avx2/Q4_0, for example.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "tests/support/random_blocks.h"

namespace baton::kernels {
namespace {

struct AlignedFree {
  void operator()(void* p) const { std::free(p); }
};
std::unique_ptr<void, AlignedFree> Aligned(size_t bytes) {
  return std::unique_ptr<void, AlignedFree>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
}

void RunMatMul(benchmark::State& state, const KernelSet& set, QuantType type, int32_t n, int32_t k,
               int32_t m) {
  std::mt19937 random(1);
  const int64_t row_bytes = RowBytes(type, k);
  std::vector<uint8_t> weight(n * row_bytes);
  const std::vector<uint8_t> some = baton::testing::RandomBlocks(type, int64_t{16} * k, random);
  for (int64_t at = 0; at < static_cast<int64_t>(weight.size()); at += some.size()) {
    std::copy_n(some.begin(), std::min<int64_t>(some.size(), weight.size() - at),
                weight.begin() + at);
  }
  std::vector<float> x(static_cast<size_t>(m) * k), out(static_cast<size_t>(m) * n);
  std::normal_distribution<float> normal;
  for (float& v : x) v = normal(random);
  const ActivationFormat format = TraitsOf(type).activation;
  const int group = std::max(ActivationGroup(format), 1);
  const int64_t stride = RoundedStride(k);
  const auto values = Aligned(m * stride), scratch = Aligned(kScratchBytes);
  std::vector<float> scales(static_cast<size_t>(m) * (k / group));
  std::vector<int16_t> sums(static_cast<size_t>(m) * (k / 16));
  const RoundedRows rounded = {static_cast<int8_t*>(values.get()), scales.data(), sums.data(),
                               stride};
  if (format != ActivationFormat::kFloat) {
    for (int32_t r = 0; r < m; ++r) {
      set.round[static_cast<int>(format)](
          x.data() + int64_t{r} * k, k,
          {rounded.values + r * stride, rounded.scales + r * (k / group),
           rounded.sums + r * (k / 16), stride},
          nullptr);
    }
  }
  for (auto _ : state) {
    set.matmul[static_cast<int>(type)]({.weight = weight.data(),
                                        .weight_row_bytes = row_bytes,
                                        .cols = k,
                                        .begin = 0,
                                        .end = n,
                                        .rows = m,
                                        .x = x.data(),
                                        .x_stride = k,
                                        .rounded = rounded,
                                        .out = out.data(),
                                        .out_stride = n,
                                        .scratch = scratch.get()});
    benchmark::DoNotOptimize(out.data());
  }
  const auto per_second = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GOP/s"] = benchmark::Counter(2e-9 * n * k * m, per_second);
  state.counters["GB/s"] =
      benchmark::Counter(1e-9 * static_cast<double>(weight.size()), per_second);
}

const bool kRegistered = [] {
  for (const Isa& isa : KnownIsas()) {
    if (!isa.supported) continue;
    for (uint32_t id = 0; id < kNumQuantTypes; ++id) {
      if (kQuantTraits[id].activation == ActivationFormat::kNone) continue;
      const auto type = static_cast<QuantType>(id);
      for (int32_t m : {1, 4, 16, 64, 512}) {
        const int32_t n = m < 512 ? 65536 : 8192;  // from memory, not from cache
        const std::string name =
            std::string(isa.name) + "/" + kQuantTraits[id].name + "/rows:" + std::to_string(m);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) {
                                       RunMatMul(state, *FindKernelSet(isa.name), type, n, 2048, m);
                                     })
            ->Unit(benchmark::kMillisecond)
            ->MinTime(0.2);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace baton::kernels
