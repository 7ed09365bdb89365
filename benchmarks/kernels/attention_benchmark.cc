// Speed of decode's attention on each instruction set of this machine, one thread: GB/s of keys and
// values read from memory by the query heads of one KV head. `baton bench -t 1` says what bounds it.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/half.h"

namespace baton::kernels {
namespace {

struct CacheShape {
  KvType type;
  int32_t dim;  // of keys and values
  size_t head_bytes() const {
    const size_t vector = type == KvType::kF16   ? 2 * dim
                          : type == KvType::kF32 ? 4 * dim
                                                 : dim + 2 * KvGroups(dim);
    return 2 * kKvBlock * vector;
  }
};

// Blocks of four KV heads, far beyond caches: halves near 1, which are sound numbers of each type.
constexpr int kHeads = 4;
std::vector<uint8_t> MakePool(const CacheShape& shape) {
  const size_t block_bytes = kHeads * shape.head_bytes();
  std::vector<uint8_t> pool((size_t{128} << 20) / block_bytes * block_bytes);
  const uint16_t half = FloatToHalf(0.75f);
  for (size_t at = 0; at + 2 <= pool.size(); at += 2) std::memcpy(pool.data() + at, &half, 2);
  return pool;
}

void RunAttention(benchmark::State& state, const KernelSet& set, const CacheShape& shape,
                  int32_t group) {
  const std::vector<uint8_t> pool = MakePool(shape);
  constexpr int kBlocks = kAttentionChunk / kKvBlock;
  const auto num_chunks =
      static_cast<int32_t>(pool.size() / (kHeads * shape.head_bytes()) / kBlocks);
  std::vector<float> q(static_cast<size_t>(group) * shape.dim, 0.01f);
  std::vector<float> partials(static_cast<size_t>(group) * (shape.dim + 2));
  std::vector<float> scratch(AttentionScratchFloats(shape.dim, shape.dim) + 16);
  std::vector<AttentionQuery> queries(group);
  for (int32_t i = 0; i < group; ++i) {
    queries[i] = {.q = q.data() + i * shape.dim,
                  .position = num_chunks * kAttentionChunk,
                  .partial = partials.data() + i * (shape.dim + 2)};
  }
  for (auto _ : state) {
    for (int32_t head = 0; head < kHeads; ++head) {
      for (int32_t chunk = 0; chunk < num_chunks; ++chunk) {
        const uint8_t* blocks[kBlocks];
        for (int32_t b = 0; b < kBlocks; ++b) {
          const size_t block = static_cast<size_t>(chunk) * kBlocks + b;
          blocks[b] = pool.data() + (block * kHeads + head) * shape.head_bytes();
        }
        set.attend({.format = shape.type,
                    .key_dim = shape.dim,
                    .value_dim = shape.dim,
                    .scale = 0.125f,
                    .chunk_begin = chunk * kAttentionChunk,
                    .num_blocks = kBlocks,
                    .blocks = blocks,
                    .num_queries = group,
                    .queries = queries.data(),
                    .scratch = scratch.data()});
        benchmark::DoNotOptimize(partials.data());
      }
    }
  }
  const double bytes = 1.0 * num_chunks * kBlocks * kHeads * shape.head_bytes();
  state.counters["GB/s"] =
      benchmark::Counter(1e-9 * bytes, benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  constexpr struct {
    const char* name;
    KvType type;
  } kTypes[] = {{"f16", KvType::kF16}, {"f32", KvType::kF32}, {"q8_0", KvType::kQ8_0}};
  for (const Isa& isa : KnownIsas()) {
    if (!isa.supported) continue;
    for (const auto& type : kTypes) {
      for (const int32_t dim : {64, 128}) {
        for (const int32_t group : {1, 3, 4, 8}) {
          const std::string name = std::string(isa.name) + "/attention/" + type.name +
                                   "/dim:" + std::to_string(dim) +
                                   "/queries:" + std::to_string(group);
          const CacheShape shape = {type.type, dim};
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=](benchmark::State& state) {
                                         RunAttention(state, *FindKernelSet(isa.name), shape,
                                                      group);
                                       })
              ->Unit(benchmark::kMillisecond)
              ->MinTime(0.2);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace baton::kernels
