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

template <KvType Format>
struct KvElement;
template <>
struct KvElement<KvType::kF16> {
  using Type = uint16_t;
  static Lanes Load(const Type* p) { return Lanes::LoadHalves(p); }
  static float LoadOne(Type v) { return HalfToFloat(v); }
};
template <>
struct KvElement<KvType::kF32> {
  using Type = float;
  static Lanes Load(const Type* p) { return Lanes::Load(p); }
  static float LoadOne(Type v) { return v; }
};

// Rounded caches are always widened first: int8 times a half is exact as a float.
template <>
struct KvElement<KvType::kQ8_0> {
  using Type = int8_t;
};
inline float Q8Scale(const uint8_t* scale) {
  uint16_t half;
  memcpy(&half, scale, 2);
  return HalfToFloat(half);
}
inline void WidenQ8Keys(const int8_t* keys, int32_t key_dim, float* to) {
  const auto* scales = reinterpret_cast<const uint8_t*>(keys + int64_t{key_dim} * kKvBlock);
  for (int32_t first = 0; first < key_dim; first += 32) {
    float scale[kKvBlock];  // of each position, for 32 dimensions
    for (float& s : scale) {
      s = Q8Scale(scales);
      scales += 2;
    }
    const int32_t end = first + 32 < key_dim ? first + 32 : key_dim;
    for (int32_t at = first * kKvBlock; at < end * kKvBlock; at += Lanes::kSize)
      (Lanes::LoadInt8s(keys + at) * Lanes::Load(scale + at % kKvBlock)).Store(to + at);
  }
}
inline void WidenQ8Values(const int8_t* values, int32_t value_dim, float* to) {
  const auto* scales = reinterpret_cast<const uint8_t*>(values + int64_t{value_dim} * kKvBlock);
  for (int32_t i = 0; i < kKvBlock; ++i, values += value_dim, to += value_dim) {
    for (int32_t first = 0; first < value_dim; first += 32, scales += 2) {
      const float scale = Q8Scale(scales);
      const int32_t end = first + 32 < value_dim ? first + 32 : value_dim;
      int32_t d = first;
      for (; d + Lanes::kSize <= end; d += Lanes::kSize)
        (Lanes::LoadInt8s(values + d) * Lanes(scale)).Store(to + d);
      for (; d < end; ++d) to[d] = static_cast<float>(values[d]) * scale;
    }
  }
}

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

// scores[q][0, 32) of Queries queries against one block of keys.
template <KvType Format, int Queries>
inline void ScoreBlock(const typename KvElement<Format>::Type* keys, int32_t key_dim,
                       const float* const* q, float* const* scores) {
  constexpr int kRegisters = kKvBlock / Lanes::kSize;
  Lanes sums[Queries][kRegisters];
  for (auto& row : sums) {
    for (Lanes& sum : row) sum = Lanes(0.0f);
  }
  for (int32_t d = 0; d < key_dim; ++d, keys += kKvBlock) {
    for (int r = 0; r < kRegisters; ++r) {
      const Lanes k = KvElement<Format>::Load(keys + r * Lanes::kSize);
      for (int i = 0; i < Queries; ++i) sums[i][r] = Fma(Lanes(q[i][d]), k, sums[i][r]);
    }
  }
  for (int i = 0; i < Queries; ++i) {
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

// partial[0, value_dim) += weights[begin, end) times those values of a block.
template <KvType Format, int Registers>
inline void AddValues(const typename KvElement<Format>::Type* values, int32_t value_dim,
                      const float* weights, int32_t begin, int32_t end, int32_t d, float* partial) {
  Lanes sums[Registers];
  for (int r = 0; r < Registers; ++r) sums[r] = Lanes::Load(partial + d + r * Lanes::kSize);
  for (int32_t i = begin; i < end; ++i) {
    const auto* v = values + static_cast<int64_t>(i) * value_dim + d;
    const Lanes weight(weights[i]);
    for (int r = 0; r < Registers; ++r) {
      sums[r] = Fma(weight, KvElement<Format>::Load(v + r * Lanes::kSize), sums[r]);
    }
  }
  for (int r = 0; r < Registers; ++r) sums[r].Store(partial + d + r * Lanes::kSize);
}
template <KvType Format>
inline void AddBlockValues(const typename KvElement<Format>::Type* values, int32_t value_dim,
                           const float* weights, int32_t begin, int32_t end, float* partial) {
  int32_t d = 0;
  for (; d + 8 * Lanes::kSize <= value_dim; d += 8 * Lanes::kSize) {
    AddValues<Format, 8>(values, value_dim, weights, begin, end, d, partial);
  }
  for (; d + Lanes::kSize <= value_dim; d += Lanes::kSize) {
    AddValues<Format, 1>(values, value_dim, weights, begin, end, d, partial);
  }
  for (; d < value_dim; ++d) {
    float sum = partial[d];
    for (int32_t i = begin; i < end; ++i) {
      sum = Fma(weights[i],
                KvElement<Format>::LoadOne(values[static_cast<int64_t>(i) * value_dim + d]), sum);
    }
    partial[d] = sum;
  }
}

// Widened once, a block serves many queries at a load each.
inline constexpr int kQueriesWorthWidening = 5;

template <KvType Format>
inline constexpr int kFewestWidened = Format == KvType::kF32    ? kMaxTaskQueries + 1
                                      : Format == KvType::kQ8_0 ? 1
                                                                : kQueriesWorthWidening;

template <KvType Format>
inline void WidenKeys(const typename KvElement<Format>::Type* keys, int32_t key_dim, float* to) {
  if constexpr (Format == KvType::kQ8_0) {
    WidenQ8Keys(keys, key_dim, to);
  } else {
    for (int32_t i = 0; i < key_dim * kKvBlock; i += Lanes::kSize)
      KvElement<Format>::Load(keys + i).Store(to + i);
  }
}
template <KvType Format>
inline void WidenValues(const typename KvElement<Format>::Type* keys, int32_t key_dim,
                        int32_t value_dim, float* to) {
  const auto* values = keys + int64_t{key_dim} * kKvBlock;
  if constexpr (Format == KvType::kQ8_0) {
    WidenQ8Values(values + 2 * KvGroups(key_dim) * kKvBlock, value_dim, to);
  } else {
    for (int32_t i = 0; i < value_dim * kKvBlock; i += Lanes::kSize)
      KvElement<Format>::Load(values + i).Store(to + i);
  }
}
// Values that are the first numbers of their keys: [key_dim, 32], widened, turned round.
inline void TurnRound(const float* keys, int32_t value_dim, float* to) {
  for (int32_t i = 0; i < kKvBlock; ++i) {
    for (int32_t d = 0; d < value_dim; ++d) to[i * value_dim + d] = keys[d * kKvBlock + i];
  }
}

template <KvType Format>
inline void ScoreQueries(const typename KvElement<Format>::Type* keys, int32_t key_dim,
                         const float* const* q, float* const* scores, int queries) {
  int i = 0;
  for (; i + 2 <= queries; i += 2) ScoreBlock<Format, 2>(keys, key_dim, q + i, scores + i);
  for (; i < queries; ++i) ScoreBlock<Format, 1>(keys, key_dim, q + i, scores + i);
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
  int CountSeeing(int32_t block) const {
    int count = 0;
    for (int32_t i = 0; i < task.num_queries; ++i) {
      const VisibleRange seen = SeenOf(i, block);
      count += seen.begin < seen.end;
    }
    return count;
  }
};

template <KvType Format>
inline void ScoreBlockOf(const AttentionPass& pass, int32_t block) {
  using Element = typename KvElement<Format>::Type;
  const AttentionTask& task = pass.task;
  const auto* keys = reinterpret_cast<const Element*>(task.blocks[block]);
  const float* q[kMaxTaskQueries];
  float* scores[kMaxTaskQueries];
  int queries = 0;
  for (int32_t i = 0; i < task.num_queries; ++i) {
    const VisibleRange seen = pass.SeenOf(i, block);
    if (seen.begin >= seen.end) continue;
    q[queries] = task.queries[i].q;
    scores[queries++] = pass.Scores(i) + block * kKvBlock;
  }
  if (queries >= kFewestWidened<Format>) {
    WidenKeys<Format>(keys, task.key_dim, pass.widened);
    ScoreQueries<KvType::kF32>(pass.widened, task.key_dim, q, scores, queries);
    return;
  }
  if constexpr (Format != KvType::kQ8_0)
    ScoreQueries<Format>(keys, task.key_dim, q, scores, queries);
}

template <KvType Format>
inline void AddValuesOf(const AttentionPass& pass, int32_t block) {
  using Element = typename KvElement<Format>::Type;
  const AttentionTask& task = pass.task;
  const auto* keys = reinterpret_cast<const Element*>(task.blocks[block]);
  const int queries = pass.CountSeeing(block);
  if (queries == 0) return;
  const bool widen = task.value_in_key || queries >= kFewestWidened<Format>;
  float* values = pass.widened;
  if (task.value_in_key) {
    values += int64_t{task.key_dim} * kKvBlock;
    WidenKeys<Format>(keys, task.key_dim, pass.widened);
    TurnRound(pass.widened, task.value_dim, values);
  } else if (widen) {
    WidenValues<Format>(keys, task.key_dim, task.value_dim, values);
  }
  for (int32_t i = 0; i < task.num_queries; ++i) {
    const VisibleRange seen = pass.SeenOf(i, block);
    if (seen.begin >= seen.end) continue;
    const float* weights = pass.Scores(i) + block * kKvBlock;
    float* partial = task.queries[i].partial;
    if (widen) {
      AddBlockValues<KvType::kF32>(values, task.value_dim, weights, seen.begin, seen.end, partial);
    } else if constexpr (Format != KvType::kQ8_0) {
      const Element* stored = keys + int64_t{task.key_dim} * kKvBlock;
      AddBlockValues<Format>(stored, task.value_dim, weights, seen.begin, seen.end, partial);
    }
  }
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
