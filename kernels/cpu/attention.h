// Attention of some queries over one chunk of cached positions, written once over Lanes
// (ARITHMETIC.md, "Attention").
//
// Keys lie dimension by dimension, so the lanes of a register are positions; values lie position by
// position, so the lanes are dimensions: neither needs a sum over lanes. A block of 32 positions is
// read for all queries while it is in cache.
#pragma once

#include "kernels/cpu/float_ops.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kKvGroup = 32;  // numbers of a kQ8_0 vector that share a scale

template <KvType Format>
struct KvElement {
  using Type = uint16_t;
};
template <>
struct KvElement<KvType::kF32> {
  using Type = float;
};
template <>
struct KvElement<KvType::kQ8_0> {
  using Type = int8_t;
};
template <KvType Format>
using KvNumber = typename KvElement<Format>::Type;

inline Lanes LoadStored(const uint16_t* p) { return Lanes::LoadHalves(p); }
inline Lanes LoadStored(const float* p) { return Lanes::Load(p); }
inline Lanes LoadStored(const int8_t* p) { return Lanes::LoadInt8s(p); }
inline float LoadOneStored(uint16_t v) { return HalfToFloat(v); }
inline float LoadOneStored(float v) { return v; }
inline float LoadOneStored(int8_t v) { return static_cast<float>(v); }

// The keys of a block, [key_dim, 32], then for kQ8_0 scales, [groups, 32]. int8 times a half is
// exact as a float.
template <KvType Format>
struct BlockKeys {
  static constexpr int kRegisters = kKvBlock / Lanes::kSize;
  static constexpr int64_t kDimBytes = kKvBlock * sizeof(KvNumber<Format>);

  BlockKeys(const void* block, int32_t key_dim)
      : numbers(static_cast<const KvNumber<Format>*>(block)),
        scale_halves(reinterpret_cast<const uint16_t*>(numbers + int64_t{key_dim} * kKvBlock)) {}

  // Called for each 32 dimensions before they are loaded.
  void BeginGroup(int32_t first) {
    if constexpr (Format == KvType::kQ8_0) {
      const uint16_t* from = scale_halves + int64_t{first} / kKvGroup * kKvBlock;
      for (int r = 0; r < kRegisters; ++r) scales[r] = Lanes::LoadHalves(from + r * Lanes::kSize);
    }
  }
  Lanes Load(int32_t d, int r) const {
    const Lanes k = LoadStored(numbers + int64_t{d} * kKvBlock + r * Lanes::kSize);
    if constexpr (Format == KvType::kQ8_0) return k * scales[r];
    return k;
  }

  const KvNumber<Format>* numbers;
  const uint16_t* scale_halves;
  Lanes scales[kRegisters];  // of kQ8_0: of the group's dimensions
};

// The values of a block, [32, value_dim], then for kQ8_0 scales, [32, groups].
template <KvType Format>
struct BlockValues {
  // Of one position, within 32 dimensions that begin at a multiple of that.
  struct Row {
    const KvNumber<Format>* numbers;
    float scale;  // of kQ8_0

    Lanes Load(int32_t d) const {
      if constexpr (Format == KvType::kQ8_0) return LoadStored(numbers + d) * Lanes(scale);
      return LoadStored(numbers + d);
    }
    float LoadOne(int32_t d) const {
      if constexpr (Format == KvType::kQ8_0) return LoadOneStored(numbers[d]) * scale;
      return LoadOneStored(numbers[d]);
    }
  };

  BlockValues(const void* block, int32_t dim)
      : numbers(static_cast<const KvNumber<Format>*>(block)), value_dim(dim) {}

  Row At(int32_t position, int32_t d) const {
    Row row = {numbers + int64_t{position} * value_dim, 1.0f};
    if constexpr (Format == KvType::kQ8_0) {
      const int32_t group = position * KvGroups(value_dim) + d / kKvGroup;
      uint16_t half;
      memcpy(&half, numbers + int64_t{value_dim} * kKvBlock + int64_t{2} * group, 2);
      row.scale = HalfToFloat(half);
    }
    return row;
  }

  const KvNumber<Format>* numbers;
  int32_t value_dim;
};
// Where they begin in the head's part of a block.
template <KvType Format>
inline const uint8_t* ValuesOf(const uint8_t* block, int32_t key_dim) {
  const int64_t scales = Format == KvType::kQ8_0 ? int64_t{2} * KvGroups(key_dim) : 0;
  return block + kKvBlock * (key_dim * sizeof(KvNumber<Format>) + scales);
}

// Memory that is read next, fetched line by line while something else is computed: blocks lie too
// far apart for the processor to see it coming. What is in cache anyway stands for nothing.
struct ReadNext {
  const void* begin;
  void Fetch(int64_t at, int bytes) const {
    for (int i = 0; i < bytes; i += 64)
      __builtin_prefetch(static_cast<const uint8_t*>(begin) + at + i);
  }
};

// The positions [begin, end) of a chunk that a query sees, counted from the chunk's first.
struct VisibleRange {
  int32_t begin, end;
};
inline VisibleRange Visible(const AttentionTask& task, int32_t position) {
  const int32_t first =
      task.window > 0 && position - task.window + 1 > 0 ? position - task.window + 1 : 0;
  int32_t begin = first - task.chunk_begin, end = position + 1 - task.chunk_begin;
  if (begin < 0) begin = 0;
  if (end > task.num_blocks * kKvBlock) end = task.num_blocks * kKvBlock;
  return {begin, end > begin ? end : begin};
}

// scores[q][0, 32) of Queries queries against one block of keys. All loops over registers are
// unrolled early, or the compiler stores the sums in each round.
template <int Queries, KvType Format>
inline void ScoreBlock(BlockKeys<Format> keys, int32_t key_dim, ReadNext next,
                       const float* const* q, float* const* scores) {
  constexpr int kRegisters = BlockKeys<Format>::kRegisters;
  constexpr int kDimBytes = BlockKeys<Format>::kDimBytes;
  Lanes sums[Queries][kRegisters];
#pragma GCC unroll 3
  for (auto& row : sums) {
#pragma GCC unroll 4
    for (Lanes& sum : row) sum = Lanes(0.0f);
  }
  for (int32_t first = 0; first < key_dim; first += kKvGroup) {
    keys.BeginGroup(first);
    const int32_t end = first + kKvGroup < key_dim ? first + kKvGroup : key_dim;
    for (int32_t d = first; d < end; ++d) {
      next.Fetch(int64_t{d} * kDimBytes, kDimBytes);
#pragma GCC unroll 4
      for (int r = 0; r < kRegisters; ++r) {
        const Lanes k = keys.Load(d, r);
#pragma GCC unroll 3
        for (int i = 0; i < Queries; ++i) sums[i][r] = Fma(Lanes(q[i][d]), k, sums[i][r]);
      }
    }
  }
#pragma GCC unroll 3
  for (int i = 0; i < Queries; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < kRegisters; ++r) sums[i][r].Store(scores[i] + r * Lanes::kSize);
  }
}

// Turns the scores of a query into weights and notes their maximum and sum.
inline void SoftmaxChunk(const AttentionTask& task, const AttentionQuery& query,
                         VisibleRange visible, float* scores) {
  float* state = query.partial + task.value_dim;
  const int32_t begin = visible.begin / Lanes::kSize * Lanes::kSize;
  const int32_t end = (visible.end + Lanes::kSize - 1) / Lanes::kSize * Lanes::kSize;
  const Lanes scale(task.scale), cap(task.softcap);
  for (int32_t i = begin; i < end; i += Lanes::kSize) {
    Lanes s = Lanes::Load(scores + i) * scale;
    if (task.softcap != 0) s = SoftCapped(s, cap);
    s.Store(scores + i);
  }
  if (query.alibi_slope != 0) {
    for (int32_t i = visible.begin; i < visible.end; ++i) {
      const float distance = static_cast<float>(task.chunk_begin + i - query.position);
      scores[i] = Fma(query.alibi_slope, distance, scores[i]);
    }
  }
  constexpr float kUnseen = -__builtin_inff();
  for (int32_t i = begin; i < visible.begin; ++i) scores[i] = kUnseen;
  for (int32_t i = visible.end; i < end; ++i) scores[i] = kUnseen;
  Lanes largest(kUnseen);
  for (int32_t i = begin; i < end; i += Lanes::kSize)
    largest = MaxOf(largest, Lanes::Load(scores + i));
  const float max = largest.Max();
  Lanes sums(0.0f);
  const Lanes shift(max);
  for (int32_t i = begin; i < end; i += Lanes::kSize) {
    const Lanes weight = Exp(Lanes::Load(scores + i) - shift);
    weight.Store(scores + i);
    sums = sums + weight;
  }
  state[0] = max;
  state[1] = sums.Sum();
}

// Queries that see the same positions of a block: their weights there, and partial answers.
struct ValueSums {
  const float* weights[kMaxTaskQueries];
  float* partials[kMaxTaskQueries];
};

inline constexpr int kGroupRegisters = kKvGroup / Lanes::kSize;

// partials[i][d, ...) += weights[i][begin, end) times those values of a block, for queries
// [first, first + Queries) and as many dimensions as Registers hold.
template <int Queries, int Registers, KvType Format>
inline void AddValues(BlockValues<Format> values, const ValueSums& to, int first, VisibleRange seen,
                      int32_t d, ReadNext next) {
  constexpr int kSize = sizeof(KvNumber<Format>);
  const float* weights[Queries];
  float* partials[Queries];
  Lanes sums[Queries][Registers];
#pragma GCC unroll 3
  for (int i = 0; i < Queries; ++i) {
    weights[i] = to.weights[first + i];
    partials[i] = to.partials[first + i] + d;
#pragma GCC unroll 8
    for (int r = 0; r < Registers; ++r) sums[i][r] = Lanes::Load(partials[i] + r * Lanes::kSize);
  }
  for (int32_t p = seen.begin; p < seen.end; ++p) {
    next.Fetch((int64_t{p} * values.value_dim + d) * kSize, Registers * Lanes::kSize * kSize);
#pragma GCC unroll 8
    for (int r = 0; r < Registers; ++r) {
      const auto row = values.At(p, d + r / kGroupRegisters * kKvGroup);
      const Lanes v = row.Load(d + r * Lanes::kSize);
#pragma GCC unroll 3
      for (int i = 0; i < Queries; ++i) sums[i][r] = Fma(Lanes(weights[i][p]), v, sums[i][r]);
    }
  }
#pragma GCC unroll 3
  for (int i = 0; i < Queries; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < Registers; ++r) sums[i][r].Store(partials[i] + r * Lanes::kSize);
  }
}
template <int Queries, KvType Format>
inline void AddBlockValues(BlockValues<Format> values, const ValueSums& to, int first,
                           VisibleRange seen, ReadNext next) {
  // Enough sums under way, and no more than registers hold.
  constexpr int kRegisters = Queries == 1 ? 2 * kGroupRegisters : kGroupRegisters;
  constexpr int kStep = kRegisters * Lanes::kSize;
  int32_t d = 0;
  for (; d + kStep <= values.value_dim; d += kStep)
    AddValues<Queries, kRegisters>(values, to, first, seen, d, next);
  for (; d + Lanes::kSize <= values.value_dim; d += Lanes::kSize)
    AddValues<Queries, 1>(values, to, first, seen, d, next);
  for (; d < values.value_dim; ++d) {
    for (int i = first; i < first + Queries; ++i) {
      float sum = to.partials[i][d];
      for (int32_t p = seen.begin; p < seen.end; ++p)
        sum = Fma(to.weights[i][p], values.At(p, d).LoadOne(d), sum);
      to.partials[i][d] = sum;
    }
  }
}

// Calls f.operator()<Queries>(first) for `count` queries, three abreast or less: as many as the
// registers hold.
template <class F>
inline void ForQueries(int count, const F& f) {
  int i = 0;
  for (; count - i == 3 || count - i > 4; i += 3) f.template operator()<3>(i);
  for (; i + 2 <= count; i += 2) f.template operator()<2>(i);
  for (; i < count; ++i) f.template operator()<1>(i);
}

// Widened once, a block serves many queries at a load each.
template <KvType Format>
inline constexpr int kFewestWidened = Format == KvType::kF32 ? kMaxTaskQueries + 1 : 7;

template <KvType Format>
inline void WidenKeys(BlockKeys<Format> keys, int32_t key_dim, ReadNext next, float* to) {
  constexpr int kDimBytes = BlockKeys<Format>::kDimBytes;
  for (int32_t d = 0; d < key_dim; ++d) {
    if (d % kKvGroup == 0) keys.BeginGroup(d);
    next.Fetch(int64_t{d} * kDimBytes, kDimBytes);
    for (int r = 0; r < BlockKeys<Format>::kRegisters; ++r, to += Lanes::kSize)
      keys.Load(d, r).Store(to);
  }
}
template <KvType Format>
inline void WidenValues(BlockValues<Format> values, ReadNext next, float* to) {
  constexpr int kBytes = kKvGroup * sizeof(KvNumber<Format>);
  for (int32_t p = 0; p < kKvBlock; ++p, to += values.value_dim) {
    for (int32_t first = 0; first < values.value_dim; first += kKvGroup) {
      const auto row = values.At(p, first);
      const int32_t end = first + kKvGroup < values.value_dim ? first + kKvGroup : values.value_dim;
      next.Fetch((int64_t{p} * values.value_dim + first) * sizeof(KvNumber<Format>), kBytes);
      int32_t d = first;
      for (; d + Lanes::kSize <= end; d += Lanes::kSize) row.Load(d).Store(to + d);
      for (; d < end; ++d) to[d] = row.LoadOne(d);
    }
  }
}
// Values that are the first numbers of their keys: [key_dim, 32], widened, turned round.
inline void TurnRound(const float* keys, int32_t value_dim, float* to) {
  for (int32_t i = 0; i < kKvBlock; ++i) {
    for (int32_t d = 0; d < value_dim; ++d) to[i * value_dim + d] = keys[d * kKvBlock + i];
  }
}

// What the passes over a task share.
struct AttentionPass {
  const AttentionTask& task;
  VisibleRange visible[kMaxTaskQueries];
  float* widened;  // keys or values of a block; behind them, values that were keys

  float* Scores(int32_t query) const { return task.scratch + int64_t{kAttentionChunk} * query; }
  // The part of a block that a query sees, counted from the block's first position.
  VisibleRange SeenOf(int32_t query, int32_t block) const {
    const int32_t first = block * kKvBlock;
    const int32_t begin = visible[query].begin - first, end = visible[query].end - first;
    return {begin > 0 ? begin : 0, end < kKvBlock ? end : kKvBlock};
  }
  // Calls f(first, end, seen) for the queries that see something of a block, as many at a time as
  // see the same.
  template <class F>
  void ForSeeing(int32_t block, const F& f) const {
    for (int32_t first = 0; first < task.num_queries;) {
      const VisibleRange seen = SeenOf(first, block);
      int32_t end = first + 1;
      for (; end < task.num_queries; ++end) {
        const VisibleRange other = SeenOf(end, block);
        if (other.begin != seen.begin || other.end != seen.end) break;
      }
      if (seen.begin < seen.end) f(first, end, seen);
      first = end;
    }
  }
  // What is read after a block's keys or values: the next block's, of the last the first's values.
  template <KvType Format>
  ReadNext AfterKeys(int32_t block) const {
    if (block + 1 < task.num_blocks) return {task.blocks[block + 1]};
    return {task.value_in_key ? task.blocks[0] : ValuesOf<Format>(task.blocks[0], task.key_dim)};
  }
  template <KvType Format>
  ReadNext AfterValues(int32_t block) const {
    const int32_t next = block + 1 < task.num_blocks ? block + 1 : block;
    return {ValuesOf<Format>(task.blocks[next], task.key_dim)};
  }
};

template <KvType Format>
inline void ScoreQueries(BlockKeys<Format> keys, int32_t key_dim, ReadNext next,
                         const float* const* q, float* const* scores, int queries) {
  ForQueries(queries, [&]<int Queries>(int i) {
    ScoreBlock<Queries>(keys, key_dim, i == 0 ? next : ReadNext{keys.numbers}, q + i, scores + i);
  });
}

template <KvType Format>
inline void ScoreBlockOf(const AttentionPass& pass, int32_t block) {
  const AttentionTask& task = pass.task;
  const BlockKeys<Format> keys(task.blocks[block], task.key_dim);
  const ReadNext next = pass.AfterKeys<Format>(block);
  const float* q[kMaxTaskQueries];
  float* scores[kMaxTaskQueries];
  int queries = 0;
  pass.ForSeeing(block, [&](int32_t first, int32_t end, VisibleRange) {
    for (int32_t i = first; i < end; ++i) {
      q[queries] = task.queries[i].q;
      scores[queries++] = pass.Scores(i) + block * kKvBlock;
    }
  });
  if (queries < kFewestWidened<Format>)
    return ScoreQueries(keys, task.key_dim, next, q, scores, queries);
  WidenKeys(keys, task.key_dim, next, pass.widened);
  ScoreQueries(BlockKeys<KvType::kF32>(pass.widened, task.key_dim), task.key_dim, {pass.widened}, q,
               scores, queries);
}

template <KvType Format>
inline void AddQueryValues(const AttentionPass& pass, int32_t block, BlockValues<Format> values,
                           ReadNext next) {
  pass.ForSeeing(block, [&](int32_t first, int32_t end, VisibleRange seen) {
    ValueSums to;
    for (int32_t i = first; i < end; ++i) {
      to.weights[i - first] = pass.Scores(i) + block * kKvBlock;
      to.partials[i - first] = pass.task.queries[i].partial;
    }
    ForQueries(end - first, [&]<int Queries>(int i) {
      AddBlockValues<Queries>(values, to, i, seen, next);
      next = {values.numbers};
    });
  });
}

template <KvType Format>
inline void AddValuesOf(const AttentionPass& pass, int32_t block) {
  const AttentionTask& task = pass.task;
  int queries = 0;
  pass.ForSeeing(block, [&](int32_t first, int32_t end, VisibleRange) { queries += end - first; });
  if (queries == 0) return;
  const ReadNext next = pass.AfterValues<Format>(block);
  const BlockValues<Format> stored(ValuesOf<Format>(task.blocks[block], task.key_dim),
                                   task.value_dim);
  float* widened = pass.widened;
  if (task.value_in_key) {
    widened += int64_t{task.key_dim} * kKvBlock;
    WidenKeys(BlockKeys<Format>(task.blocks[block], task.key_dim), task.key_dim,
              pass.AfterKeys<Format>(block), pass.widened);
    TurnRound(pass.widened, task.value_dim, widened);
  } else if (queries < kFewestWidened<Format>) {
    return AddQueryValues(pass, block, stored, next);
  } else {
    WidenValues(stored, next, widened);
  }
  AddQueryValues(pass, block, BlockValues<KvType::kF32>(widened, task.value_dim), {widened});
}

template <KvType Format>
void AttendAs(const AttentionTask& task) {
  AttentionPass pass{task, {}, task.scratch + int64_t{kMaxTaskQueries} * kAttentionChunk};
  for (int32_t i = 0; i < task.num_queries; ++i) {
    pass.visible[i] = Visible(task, task.queries[i].position);
  }
  for (int32_t b = 0; b < task.num_blocks; ++b) ScoreBlockOf<Format>(pass, b);
  for (int32_t i = 0; i < task.num_queries; ++i) {
    float* partial = task.queries[i].partial;
    for (int32_t d = 0; d < task.value_dim; ++d) partial[d] = 0;
    SoftmaxChunk(task, task.queries[i], pass.visible[i], pass.Scores(i));
  }
  for (int32_t b = 0; b < task.num_blocks; ++b) AddValuesOf<Format>(pass, b);
}
inline void Attend(const AttentionTask& task) {
  switch (task.format) {
    case KvType::kF16:
      return AttendAs<KvType::kF16>(task);
    case KvType::kF32:
      return AttendAs<KvType::kF32>(task);
    case KvType::kQ8_0:
      return AttendAs<KvType::kQ8_0>(task);
  }
}

inline float Rescale(float max, float new_max) {
  float weight[Lanes::kSize];
  Exp(Lanes(max - new_max)).Store(weight);
  return weight[0];
}
inline void MergePartials(float* partial, const float* other, int32_t value_dim) {
  constexpr float kNothingSeen = -__builtin_inff();
  if (other[value_dim] == kNothingSeen) return;
  if (partial[value_dim] == kNothingSeen) {
    for (int32_t i = 0; i < value_dim + 2; ++i) partial[i] = other[i];
    return;
  }
  const float max = MaxOf(partial[value_dim], other[value_dim]);
  const float a = Rescale(partial[value_dim], max), b = Rescale(other[value_dim], max);
  const Lanes as(a), bs(b);
  ForLanes(value_dim, [&](int32_t i, int count) {
    StoreUpTo(Fma(LoadUpTo(partial + i, count), as, LoadUpTo(other + i, count) * bs), partial + i,
              count);
  });
  partial[value_dim] = max;
  partial[value_dim + 1] = Fma(partial[value_dim + 1], a, other[value_dim + 1] * b);
}
inline void FinishAttention(const float* partial, const float* sink, int32_t value_dim,
                            float* out) {
  const float max = partial[value_dim], sum = partial[value_dim + 1];
  float factor = 1.0f / sum;
  if (sink != nullptr) {
    const float new_max = MaxOf(max, *sink);
    const float rescale = Rescale(max, new_max);
    factor = rescale / Fma(sum, rescale, Rescale(*sink, new_max));
  }
  const Lanes f(factor);
  ForLanes(value_dim, [&](int32_t i, int count) {
    StoreUpTo(LoadUpTo(partial + i, count) * f, out + i, count);
  });
}

inline void FillAttention(KernelSet& set) {
  set.attend = Attend;
  set.merge_partials = MergePartials;
  set.finish_attention = FinishAttention;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
