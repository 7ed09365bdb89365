// Attention over the cached blocks of a sequence (ARITHMETIC.md, "Attention"): chunks of 512
// positions, none of whose scores leaves shared memory.
//
// A block of threads takes some queries of one KV head, so that a key or value is loaded once for
// all of them. Scores: lanes are positions, each adds up its own products. Values: threads are
// dimensions, each adds up over the positions. So no sum is divided, and the bits are the CPU's.
#include "kernels/cuda/parts.cuh"
#include "kernels/element_ops.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kQueries = kCudaQueriesTogether;
constexpr int kBlocksPerChunk = kAttentionChunk / kKvBlock;
constexpr size_t kSharedBytesUnasked = 46 << 10;  // beside 2 KiB of the kernel's own
constexpr float kUnseen = -__builtin_inff();

// Number (d, slot) of a key, counted in numbers.
__device__ inline int64_t KeyAt(int32_t d, int32_t slot) {
  return int64_t{d / 8} * (8 * kKvBlock) + slot * 8 + d % 8;
}
__device__ inline int64_t ValueAt(const CudaKv& kv, int32_t d, int32_t slot) {
  return int64_t{slot} * kv.value_dim + d;
}
__device__ inline int64_t KeyScaleAt(int32_t group, int32_t slot) {
  return int64_t{group} * kKvBlock + slot;
}
__device__ inline int64_t ValueScaleAt(const CudaKv& kv, int32_t group, int32_t slot) {
  return int64_t{slot} * KvGroups(kv.value_dim) + group;
}
__device__ inline const uint16_t* KeyScales(const CudaKv& kv, const uint8_t* head) {
  return reinterpret_cast<const uint16_t*>(head + CudaKeyBytes(kv));
}
__device__ inline const uint16_t* ValueScales(const CudaKv& kv, const uint8_t* head) {
  return reinterpret_cast<const uint16_t*>(head + CudaValuesAt(kv) +
                                           int64_t{kKvBlock} * kv.value_dim);
}

// How the numbers of a format are read and written; `head` is a KV head's part of a block.
template <KvType>
struct Stored;
template <>
struct Stored<KvType::kF32> {
  using Number = float;
  __device__ static void LoadEight(const float* p, float (&to)[8]) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const float4 four = reinterpret_cast<const float4*>(p)[v];
      to[4 * v] = four.x;
      to[4 * v + 1] = four.y;
      to[4 * v + 2] = four.z;
      to[4 * v + 3] = four.w;
    }
  }
  __device__ static float Widen(float v) { return v; }
  __device__ static float Narrow(float v) { return v; }
};
template <>
struct Stored<KvType::kF16> {
  using Number = uint16_t;
  __device__ static void LoadEight(const uint16_t* p, float (&to)[8]) {
    const uint4 vector = *reinterpret_cast<const uint4*>(p);
    const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < 8; ++i)
      to[i] = HalfToFloat(static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2))));
  }
  __device__ static float Widen(uint16_t v) { return HalfToFloat(v); }
  // What a half cannot hold becomes the largest it can.
  __device__ static uint16_t Narrow(float v) {
    constexpr float kLargest = 65504.0f;
    return FloatToHalf(v > kLargest ? kLargest : v < -kLargest ? -kLargest : v);
  }
};
template <>
struct Stored<KvType::kQ8_0> {
  using Number = int8_t;
  __device__ static void LoadEight(const int8_t* p, float (&to)[8]) {
    const uint2 vector = *reinterpret_cast<const uint2*>(p);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t word = i < 4 ? vector.x : vector.y;
      to[i] = static_cast<float>(static_cast<int8_t>(word >> (8 * (i % 4))));
    }
  }
  __device__ static float Widen(int8_t v) { return static_cast<float>(v); }
};

// Dimensions d to d + 7 of a key.
template <KvType Format>
__device__ inline void LoadKey(const CudaKv& kv, const uint8_t* head, int32_t d, int32_t slot,
                               float (&to)[8]) {
  const auto* keys = reinterpret_cast<const typename Stored<Format>::Number*>(head);
  Stored<Format>::LoadEight(keys + KeyAt(d, slot), to);
  if constexpr (Format == KvType::kQ8_0) {  // int8 times a half is exact
    const float scale = HalfToFloat(KeyScales(kv, head)[KeyScaleAt(d / 32, slot)]);
#pragma unroll
    for (float& v : to) v *= scale;
  }
}
template <KvType Format>
__device__ inline float LoadValue(const CudaKv& kv, const uint8_t* head, int32_t d, int32_t slot) {
  using Number = typename Stored<Format>::Number;
  const auto* numbers =
      reinterpret_cast<const Number*>(kv.value_in_key ? head : head + CudaValuesAt(kv));
  const float value =
      Stored<Format>::Widen(numbers[kv.value_in_key ? KeyAt(d, slot) : ValueAt(kv, d, slot)]);
  if constexpr (Format == KvType::kQ8_0) {
    const uint16_t scale = kv.value_in_key ? KeyScales(kv, head)[KeyScaleAt(d / 32, slot)]
                                           : ValueScales(kv, head)[ValueScaleAt(kv, d / 32, slot)];
    return value * HalfToFloat(scale);
  }
  return value;
}

// ---- storing ------------------------------------------------------------------------------------

constexpr int kStoreThreads = 256;

// Whose head `head` of a row's block is, and where in it the row goes.
struct RowPlace {
  uint8_t* block;
  int32_t slot;

  __device__ RowPlace(const CudaKv& kv, const CudaLayout& layout, int64_t row) {
    const int32_t position = layout.positions[row];
    const int64_t id = layout.block_ids[layout.table_begins[row] + position / kKvBlock];
    block = kv.blocks + id * CudaKvBlockBytes(kv);
    slot = position % kKvBlock;
  }
  __device__ uint8_t* Head(const CudaKv& kv, int32_t head) const {
    return block + head * CudaKvHeadBytes(kv);
  }
};

template <KvType Format>
__global__ void StoreRows(CudaKv kv, CudaLayout layout, CudaMatrix k, CudaMatrix v) {
  using Number = typename Stored<Format>::Number;
  const int64_t row = blockIdx.x;
  const RowPlace place(kv, layout, row);
  const auto first = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = first; i < kv.num_kv_heads * kv.key_dim; i += kStoreThreads) {
    auto* keys = reinterpret_cast<Number*>(place.Head(kv, i / kv.key_dim));
    keys[KeyAt(i % kv.key_dim, place.slot)] = Stored<Format>::Narrow(k.data[row * k.stride + i]);
  }
  if (kv.value_in_key) return;
  for (int32_t i = first; i < kv.num_kv_heads * kv.value_dim; i += kStoreThreads) {
    auto* values = reinterpret_cast<Number*>(place.Head(kv, i / kv.value_dim) + CudaValuesAt(kv));
    values[ValueAt(kv, i % kv.value_dim, place.slot)] =
        Stored<Format>::Narrow(v.data[row * v.stride + i]);
  }
}

// A warp rounds a group of 32 numbers; lanes beyond the vector's end hold 0.
struct RoundedNumber {
  int8_t q;
  uint16_t scale;
};
__device__ inline RoundedNumber RoundInGroup(float x) {
  float largest = AbsOf(x);
  for (int d = 16; d > 0; d /= 2) largest = MaxOf(largest, __shfl_xor_sync(kAllLanes, largest, d));
  const uint16_t half = Stored<KvType::kF16>::Narrow(largest / 127.0f);
  const float scale = HalfToFloat(half);
  const float scaled = scale > 0 ? x / scale : 0.0f;
  const float bounded = scaled > 127.0f ? 127.0f : scaled > -127.0f ? scaled : -127.0f;
  return {static_cast<int8_t>(RoundToInteger(bounded)), half};
}
__global__ void StoreRowsQ8(CudaKv kv, CudaLayout layout, CudaMatrix k, CudaMatrix v) {
  const int64_t row = blockIdx.x;
  const RowPlace place(kv, layout, row);
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t key_groups = KvGroups(kv.key_dim);
  const int32_t value_groups = kv.value_in_key ? 0 : KvGroups(kv.value_dim);
  for (int32_t i = static_cast<int32_t>(threadIdx.x) / 32;
       i < kv.num_kv_heads * (key_groups + value_groups); i += kStoreThreads / 32) {
    const int32_t head = i / (key_groups + value_groups), g = i % (key_groups + value_groups);
    const bool is_key = g < key_groups;
    const int32_t group = is_key ? g : g - key_groups;
    const int32_t dim = is_key ? kv.key_dim : kv.value_dim, d = group * 32 + lane;
    const CudaMatrix& from = is_key ? k : v;
    const float x = d < dim ? from.data[row * from.stride + int64_t{head} * dim + d] : 0.0f;
    const RoundedNumber rounded = RoundInGroup(x);
    uint8_t* to = place.Head(kv, head);
    auto* numbers = reinterpret_cast<int8_t*>(is_key ? to : to + CudaValuesAt(kv));
    if (d < dim) numbers[is_key ? KeyAt(d, place.slot) : ValueAt(kv, d, place.slot)] = rounded.q;
    if (lane != 0) continue;
    auto* scales = const_cast<uint16_t*>(is_key ? KeyScales(kv, to) : ValueScales(kv, to));
    scales[is_key ? KeyScaleAt(group, place.slot) : ValueScaleAt(kv, group, place.slot)] =
        rounded.scale;
  }
}

void StoreKv(const CudaKv& kv, const CudaLayout& layout, CudaMatrix k, CudaMatrix v,
             CudaStream stream) {
  const dim3 grid(static_cast<unsigned>(k.rows)), block(kStoreThreads);
  switch (kv.format) {
    case KvType::kF16:
      BATON_LAUNCH(StoreRows<KvType::kF16>, grid, block, 0, stream, kv, layout, k, v);
      break;
    case KvType::kF32:
      BATON_LAUNCH(StoreRows<KvType::kF32>, grid, block, 0, stream, kv, layout, k, v);
      break;
    case KvType::kQ8_0:
      BATON_LAUNCH(StoreRowsQ8, grid, block, 0, stream, kv, layout, k, v);
      break;
  }
}

// ---- attending ----------------------------------------------------------------------------------

// Positions [begin, end) of a chunk that a query sees, counted from the chunk's first.
struct Visible {
  int32_t begin, end;
};

// Maximum score, sum of weights.
struct SoftmaxState {
  float max, sum;
};
__device__ inline float Rescale(float max, float new_max) { return Exp(max - new_max); }

// What a block of threads shares about its queries, besides what is sized by the model's
// dimensions.
struct QueryGroup {
  int32_t count;
  int32_t position[kQueries];
  float alibi_slope[kQueries];
  const float* q[kQueries];
  Visible visible[kQueries];  // of the current chunk
  SoftmaxState chunk[kQueries];
  SoftmaxState merged[kQueries];  // of the chunks so far
};

// Dynamic shared memory.
struct AttentionArrays {
  float* scores;  // [kQueries, kAttentionChunk]
  float* q;       // [kQueries, key_dim padded to 8]
  float* sums;    // [kQueries, value_dim]: of the chunks so far

  static constexpr int32_t PaddedKeys(int32_t key_dim) { return (key_dim + 7) / 8 * 8; }
  static constexpr size_t Bytes(const CudaKv& kv) {
    return sizeof(float) * kQueries * (kAttentionChunk + PaddedKeys(kv.key_dim) + kv.value_dim);
  }
  __device__ AttentionArrays(float* memory, const CudaKv& kv)
      : scores(memory),
        q(scores + kQueries * kAttentionChunk),
        sums(q + kQueries * PaddedKeys(kv.key_dim)) {}
};

// The KV head's part of a block.
__device__ inline const uint8_t* HeadOfBlock(const CudaKv& kv, int32_t id, int32_t kv_head) {
  return kv.blocks + int64_t{id} * CudaKvBlockBytes(kv) + kv_head * CudaKvHeadBytes(kv);
}

// Scores of a block of 32 positions, one a lane.
template <KvType Format>
__device__ inline void ScoreBlock(const CudaAttentionArgs& a, const QueryGroup& group,
                                  const AttentionArrays& arrays, const uint8_t* head,
                                  int32_t chunk_begin, int32_t block) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t padded = AttentionArrays::PaddedKeys(a.kv.key_dim);
  float s[kQueries] = {};
  for (int32_t d = 0; d < a.kv.key_dim; d += 8) {
    float key[8];
    LoadKey<Format>(a.kv, head, d, lane, key);
    const int32_t dims = a.kv.key_dim - d < 8 ? a.kv.key_dim - d : 8;
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      if (i >= group.count) break;
      const float* q = arrays.q + i * padded + d;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (j < dims) s[i] = Fma(q[j], key[j], s[i]);
      }
    }
  }
  const int32_t at = block * kKvBlock + lane;
#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
    if (i >= group.count) break;
    float score = s[i] * a.scale;
    if (a.softcap != 0) score = SoftCapped(score, a.softcap);
    if (group.alibi_slope[i] != 0) {
      const auto distance = static_cast<float>(chunk_begin + at - group.position[i]);
      score = Fma(group.alibi_slope[i], distance, score);
    }
    arrays.scores[i * kAttentionChunk + at] = score;
  }
}

// Turns a query's scores into weights, by one warp.
__device__ inline void SoftmaxOfQuery(QueryGroup& group, const AttentionArrays& arrays, int i) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
  const Visible visible = group.visible[i];
  float* scores = arrays.scores + i * kAttentionChunk;
  float max = kUnseen;
  for (int32_t p = visible.begin + lane; p < visible.end; p += 32) max = MaxOf(max, scores[p]);
  for (int d = 16; d > 0; d /= 2) max = MaxOf(max, __shfl_xor_sync(kAllLanes, max, d));
  for (int32_t p = visible.begin + lane; p < visible.end; p += 32) scores[p] = Exp(scores[p] - max);
  __syncwarp();
  float sum = 0;  // lane l of eight: positions l, l + 8, …
  if (lane < 8) {
    const int32_t first = visible.begin + (lane - visible.begin % 8 + 8) % 8;
    for (int32_t p = first; p < visible.end; p += 8) sum += scores[p];
  }
  sum = SumOfEight(sum);
  if (lane == 0) group.chunk[i] = {max, sum};
}

// sums[i] += weights times values of dimension d, over positions [begin, end) of the chunk; where
// not all queries see all of them, each takes its own.
template <KvType Format, bool AllSee>
__device__ inline void AddValues(const CudaAttentionArgs& a, const QueryGroup& group,
                                 const AttentionArrays& arrays, const int32_t* table,
                                 int32_t kv_head, int32_t d, int32_t begin, int32_t end,
                                 float (&sums)[kQueries]) {
  for (int32_t p = begin; p < end;) {
    const uint8_t* head = HeadOfBlock(a.kv, table[p / kKvBlock], kv_head);
    const int32_t block_end = (p / kKvBlock + 1) * kKvBlock;
    const int32_t stop = end < block_end ? end : block_end;
#pragma unroll 4
    for (; p < stop; ++p) {
      const float value = LoadValue<Format>(a.kv, head, d, p % kKvBlock);
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        if (i >= group.count) break;
        if (!AllSee && (p < group.visible[i].begin || p >= group.visible[i].end)) continue;
        sums[i] = Fma(arrays.scores[i * kAttentionChunk + p], value, sums[i]);
      }
    }
  }
}

// One chunk of positions: its weighted values are merged into arrays.sums and group.merged.
template <KvType Format>
__device__ inline void AttendChunk(const CudaAttentionArgs& a, QueryGroup& group,
                                   const AttentionArrays& arrays, const int32_t* table,
                                   int32_t kv_head, int32_t chunk, bool first) {
  const int32_t chunk_begin = chunk * kAttentionChunk;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread < group.count) {
    const int32_t position = group.position[thread];
    const int32_t lowest = a.window > 0 && position >= a.window ? position - a.window + 1 : 0;
    int32_t begin = lowest - chunk_begin, end = position + 1 - chunk_begin;
    begin = begin < 0 ? 0 : begin;
    end = end > kAttentionChunk ? kAttentionChunk : end;
    group.visible[thread] = {begin, end > begin ? end : begin};
  }
  __syncthreads();
  Visible any = {kAttentionChunk, 0}, all = {0, kAttentionChunk};  // some query sees; all do
  for (int i = 0; i < group.count; ++i) {
    const Visible seen = group.visible[i];
    all.begin = seen.begin > all.begin ? seen.begin : all.begin;
    all.end = seen.end < all.end ? seen.end : all.end;
    if (seen.begin == seen.end) continue;
    any.begin = seen.begin < any.begin ? seen.begin : any.begin;
    any.end = seen.end > any.end ? seen.end : any.end;
  }
  if (any.begin >= any.end) {  // a chunk that nobody sees: the same for all threads
    if (first && thread < group.count) group.merged[thread] = {kUnseen, 0};
    __syncthreads();
    return;
  }

  const int32_t* blocks = table + chunk * kBlocksPerChunk;
  for (int32_t b = any.begin / kKvBlock + thread / 32; b * kKvBlock < any.end; b += kWarps) {
    ScoreBlock<Format>(a, group, arrays, HeadOfBlock(a.kv, blocks[b], kv_head), chunk_begin, b);
  }
  __syncthreads();
  for (int i = thread / 32; i < group.count; i += kWarps) SoftmaxOfQuery(group, arrays, i);
  __syncthreads();

  if (all.begin > all.end) all = {any.end, any.end};
  if (all.begin < any.begin) all.begin = any.begin;
  if (all.end < all.begin) all.end = all.begin;
  for (int32_t d = thread; d < a.kv.value_dim; d += kThreads) {
    float sums[kQueries] = {};
    AddValues<Format, false>(a, group, arrays, blocks, kv_head, d, any.begin, all.begin, sums);
    AddValues<Format, true>(a, group, arrays, blocks, kv_head, d, all.begin, all.end, sums);
    AddValues<Format, false>(a, group, arrays, blocks, kv_head, d, all.end, any.end, sums);
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      if (i >= group.count) break;
      float& merged = arrays.sums[i * a.kv.value_dim + d];
      const float old_max = group.merged[i].max, max = group.chunk[i].max;
      if (first || old_max == kUnseen) {
        merged = sums[i];
      } else if (max != kUnseen) {
        const float new_max = MaxOf(old_max, max);
        merged = Fma(merged, Rescale(old_max, new_max), sums[i] * Rescale(max, new_max));
      }
    }
  }
  __syncthreads();
  if (thread < group.count) {
    SoftmaxState& merged = group.merged[thread];
    const SoftmaxState own = group.chunk[thread];
    if (first || merged.max == kUnseen) {
      merged = own;
    } else if (own.max != kUnseen) {
      const float max = MaxOf(merged.max, own.max);
      merged = {max, Fma(merged.sum, Rescale(merged.max, max), own.sum * Rescale(own.max, max))};
    }
  }
  __syncthreads();
}

__device__ inline float FinishFactor(SoftmaxState state, const float* sink) {
  if (sink == nullptr) return 1.0f / state.sum;
  const float max = MaxOf(state.max, *sink);
  const float rescale = Rescale(state.max, max);
  return rescale / Fma(state.sum, rescale, Rescale(*sink, max));
}

// Where the partial answer of a row, head and chunk lies.
__device__ inline float* PartialAt(const CudaAttentionArgs& a, int64_t row, int32_t head,
                                   int32_t chunk) {
  return a.partials + ((row * a.num_heads + head) * a.chunks + chunk) * (a.kv.value_dim + 2);
}

// Which queries a block of threads takes: `count` of those of neighbouring rows and of the heads
// that share a KV head, rows first.
struct QueryItem {
  int32_t first_row, kv_head, first_query, num_queries;
  int32_t heads;  // that share the KV head

  __device__ int32_t RowOf(int32_t q) const { return first_row + q / heads; }
  __device__ int32_t HeadOf(int32_t q) const { return kv_head * heads + q % heads; }
};

// Queries [begin, end) of an item, all of one sequence.
template <KvType Format>
__device__ inline void AttendQueries(const CudaAttentionArgs& a, const QueryItem& item,
                                     int32_t begin, int32_t end, QueryGroup& group,
                                     const AttentionArrays& arrays) {
  const auto thread = static_cast<int32_t>(threadIdx.x);
  __syncthreads();  // what the queries before left is used up
  if (thread == 0) group.count = end - begin;
  if (thread < end - begin) {
    const int32_t row = item.RowOf(begin + thread), head = item.HeadOf(begin + thread);
    group.position[thread] = a.layout.positions[row];
    group.alibi_slope[thread] = a.alibi_slopes != nullptr ? a.alibi_slopes[head] : 0.0f;
    group.q[thread] = a.q.data + row * a.q.stride + int64_t{head} * a.kv.key_dim;
  }
  __syncthreads();
  const int32_t padded = AttentionArrays::PaddedKeys(a.kv.key_dim);
  int32_t lowest = group.position[0], highest = lowest;
  for (int i = 0; i < group.count; ++i) {
    lowest = group.position[i] < lowest ? group.position[i] : lowest;
    highest = group.position[i] > highest ? group.position[i] : highest;
    for (int32_t d = thread; d < a.kv.key_dim; d += kThreads)
      arrays.q[i * padded + d] = group.q[i][d];
  }
  const int32_t first_seen = a.window > 0 && lowest >= a.window ? lowest - a.window + 1 : 0;
  int32_t first_chunk = first_seen / kAttentionChunk, end_chunk = highest / kAttentionChunk + 1;
  if (a.partials != nullptr) {
    const auto own = static_cast<int32_t>(blockIdx.y);
    if (own < first_chunk || own >= end_chunk) return;  // all threads alike
    first_chunk = own;
    end_chunk = own + 1;
  }
  const int32_t* table = a.layout.block_ids + a.layout.table_begins[item.RowOf(begin)];
  for (int32_t chunk = first_chunk; chunk < end_chunk; ++chunk) {
    AttendChunk<Format>(a, group, arrays, table, item.kv_head, chunk, chunk == first_chunk);
  }

  for (int i = 0; i < group.count; ++i) {
    const int32_t row = item.RowOf(begin + i), head = item.HeadOf(begin + i);
    const float* sums = arrays.sums + i * a.kv.value_dim;
    if (a.partials != nullptr) {
      float* to = PartialAt(a, row, head, first_chunk);
      for (int32_t d = thread; d < a.kv.value_dim; d += kThreads) to[d] = sums[d];
      if (thread == 0) {
        to[a.kv.value_dim] = group.merged[i].max;
        to[a.kv.value_dim + 1] = group.merged[i].sum;
      }
    } else {
      const float factor =
          FinishFactor(group.merged[i], a.sinks != nullptr ? a.sinks + head : nullptr);
      float* to = a.out.data + row * a.out.stride + int64_t{head} * a.kv.value_dim;
      for (int32_t d = thread; d < a.kv.value_dim; d += kThreads) to[d] = sums[d] * factor;
    }
  }
}

// grid: [items, chunks or 1].
template <KvType Format>
__global__ void __launch_bounds__(kThreads) Attend(CudaAttentionArgs a) {
  BATON_DYNAMIC_SHARED(float, memory);
  __shared__ QueryGroup group;
  const AttentionArrays arrays(memory, a.kv);
  const int32_t heads = a.num_heads / a.kv.num_kv_heads;
  const int32_t parts = (a.rows_together * heads + kQueries - 1) / kQueries;  // of a tile of rows
  const auto index = static_cast<int32_t>(blockIdx.x);
  QueryItem item = {.first_row = index / (parts * a.kv.num_kv_heads) * a.rows_together,
                    .kv_head = index / parts % a.kv.num_kv_heads,
                    .first_query = index % parts * kQueries,
                    .num_queries = 0,
                    .heads = heads};
  const int32_t rows =
      a.q.rows - item.first_row < a.rows_together ? a.q.rows - item.first_row : a.rows_together;
  item.num_queries = rows * heads;
  const int32_t last = item.first_query + kQueries < item.num_queries ? item.first_query + kQueries
                                                                      : item.num_queries;
  for (int32_t begin = item.first_query; begin < last;) {
    const int32_t table = a.layout.table_begins[item.RowOf(begin)];
    int32_t end = begin + 1;
    while (end < last && a.layout.table_begins[item.RowOf(end)] == table) ++end;
    AttendQueries<Format>(a, item, begin, end, group, arrays);
    begin = end;
  }
}

// grid: [rows * num_heads]: merges the chunks' answers in order.
__global__ void MergeChunks(CudaAttentionArgs a) {
  const int64_t row = blockIdx.x / static_cast<unsigned>(a.num_heads);
  const auto head = static_cast<int32_t>(blockIdx.x % static_cast<unsigned>(a.num_heads));
  const int32_t position = a.layout.positions[row], value_dim = a.kv.value_dim;
  const int32_t first_seen = a.window > 0 && position >= a.window ? position - a.window + 1 : 0;
  const int32_t first = first_seen / kAttentionChunk, end = position / kAttentionChunk + 1;
  for (int32_t d = static_cast<int32_t>(threadIdx.x); d < value_dim; d += kThreads) {
    const float* partial = PartialAt(a, row, head, first);
    SoftmaxState state = {partial[value_dim], partial[value_dim + 1]};
    float sum = partial[d];
    for (int32_t chunk = first + 1; chunk < end; ++chunk) {
      partial = PartialAt(a, row, head, chunk);
      const SoftmaxState other = {partial[value_dim], partial[value_dim + 1]};
      const float max = MaxOf(state.max, other.max);
      const float keep = Rescale(state.max, max), add = Rescale(other.max, max);
      sum = Fma(sum, keep, partial[d] * add);
      state = {max, Fma(state.sum, keep, other.sum * add)};
    }
    const float factor = FinishFactor(state, a.sinks != nullptr ? a.sinks + head : nullptr);
    a.out.data[row * a.out.stride + int64_t{head} * value_dim + d] = sum * factor;
  }
}

template <KvType Format>
void AttendAs(const CudaAttentionArgs& a, CudaStream stream) {
  const int32_t heads = a.num_heads / a.kv.num_kv_heads;
  const unsigned items = CeilDiv(a.q.rows, a.rows_together) *
                         static_cast<unsigned>(a.kv.num_kv_heads) *
                         CeilDiv(int64_t{a.rows_together} * heads, kQueries);
  const dim3 grid(items, a.partials != nullptr ? static_cast<unsigned>(a.chunks) : 1);
  const size_t shared_bytes = AttentionArrays::Bytes(a.kv);
  if (shared_bytes > kSharedBytesUnasked) {
    cudaFuncSetAttribute(Attend<Format>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared_bytes));
  }
  BATON_LAUNCH(Attend<Format>, grid, dim3(kThreads), shared_bytes, stream, a);
  if (a.partials == nullptr) return;
  BATON_LAUNCH(MergeChunks, dim3(static_cast<unsigned>(a.q.rows * a.num_heads)), dim3(kThreads), 0,
               stream, a);
}

void AttendRows(const CudaAttentionArgs& args, CudaStream stream) {
  switch (args.kv.format) {
    case KvType::kF16:
      return AttendAs<KvType::kF16>(args, stream);
    case KvType::kF32:
      return AttendAs<KvType::kF32>(args, stream);
    case KvType::kQ8_0:
      return AttendAs<KvType::kQ8_0>(args, stream);
  }
}

}  // namespace

void FillCudaAttention(CudaApi& api) {
  api.store_kv = StoreKv;
  api.attend = AttendRows;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
