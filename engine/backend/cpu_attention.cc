// The KV cache and attention of the CPU backend.
//
// A block of a layer holds, for each KV head, its keys [key_dim, 32 positions] and then its values
// [32 positions, value_dim]: see kernels/cpu/attention.h for why.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/backend/cpu_backend.h"
#include "kernels/exact_math.h"

namespace baton::engine {
namespace {

using kernels::AttentionQuery;
using kernels::AttentionTask;
using kernels::kAttentionChunk;
using kernels::kKvBlock;
using kernels::kMaxTaskQueries;

constexpr int kBlocksPerChunk = kAttentionChunk / kKvBlock;

// One number of each position in a block, or for kQ8_0 a number and its share of a scale.
size_t VectorBytes(KvType type, int32_t dim) {
  switch (type) {
    case KvType::kF16:
      return size_t{2} * dim;
    case KvType::kF32:
      return size_t{4} * dim;
    case KvType::kQ8_0:
      return static_cast<size_t>(dim) + 2 * kernels::KvGroups(dim);
  }
  std::abort();
}

size_t HeadBytes(const KvLayer& layer) {
  const size_t value_bytes = layer.value_in_key ? 0 : VectorBytes(layer.type, layer.value_dim);
  return kKvBlock * (VectorBytes(layer.type, layer.key_dim) + value_bytes);
}

// What a half cannot hold becomes the largest it can, so that one number can't turn a sequence into
// NaN.
uint16_t ToHalf(float f) {
  constexpr float kLargest = 65504.0f;
  return kernels::FloatToHalf(f > kLargest ? kLargest : f < -kLargest ? -kLargest : f);
}

template <class Element, class Convert>
void StoreHead(const KvLayer& layer, std::byte* block, int32_t slot, const float* k, const float* v,
               const Convert& convert) {
  auto* keys = reinterpret_cast<Element*>(block);
  for (int32_t d = 0; d < layer.key_dim; ++d) keys[d * kKvBlock + slot] = convert(k[d]);
  if (layer.value_in_key) return;
  Element* values = keys + int64_t{layer.key_dim} * kKvBlock + int64_t{slot} * layer.value_dim;
  for (int32_t d = 0; d < layer.value_dim; ++d) values[d] = convert(v[d]);
}

// Rounds a vector in groups of 32 to int8 with a half as scale; numbers lie `stride` apart, scales
// `scale_stride`.
void StoreQ8(const float* x, int32_t dim, std::byte* values, int64_t stride, std::byte* scales,
             int64_t scale_stride) {
  for (int32_t first = 0; first < dim; first += 32) {
    const int32_t end = std::min(dim, first + 32);
    float largest = 0;
    for (int32_t d = first; d < end; ++d) largest = kernels::MaxOf(largest, kernels::AbsOf(x[d]));
    const uint16_t half = ToHalf(largest / 127.0f);
    std::memcpy(scales + first / 32 * scale_stride * 2, &half, 2);
    const float scale = kernels::HalfToFloat(half);
    for (int32_t d = first; d < end; ++d) {
      const float scaled = scale > 0 ? x[d] / scale : 0.0f;
      const float bounded = scaled > 127.0f ? 127.0f : scaled > -127.0f ? scaled : -127.0f;
      values[d * stride] =
          static_cast<std::byte>(static_cast<int8_t>(kernels::RoundToInteger(bounded)));
    }
  }
}
void StoreHeadQ8(const KvLayer& layer, std::byte* block, int32_t slot, const float* k,
                 const float* v) {
  std::byte* scales = block + int64_t{layer.key_dim} * kKvBlock;
  StoreQ8(k, layer.key_dim, block + slot, kKvBlock, scales + 2 * slot, kKvBlock);
  if (layer.value_in_key) return;
  std::byte* values = scales + 2 * kernels::KvGroups(layer.key_dim) * kKvBlock;
  scales = values + int64_t{layer.value_dim} * kKvBlock;
  StoreQ8(v, layer.value_dim, values + int64_t{slot} * layer.value_dim, 1,
          scales + 2 * slot * kernels::KvGroups(layer.value_dim), 1);
}

}  // namespace

size_t CpuBackend::KvBlockBytes(const KvLayer& layer) const {
  return HeadBytes(layer) * layer.num_kv_heads;
}

void CpuBackend::StoreKv(const KvLayer& cache, const BatchLayout& layout, Activations k,
                         Activations v) {
  const size_t head_bytes = HeadBytes(cache), block_bytes = KvBlockBytes(cache);
  auto* pool = static_cast<std::byte*>(cache.blocks->data());
  ForRows(k, [&](int32_t r) {
    const int32_t position = layout.positions[r];
    const int32_t id = layout.block_tables[layout.sequence[r]][position / kKvBlock];
    for (int32_t head = 0; head < cache.num_kv_heads; ++head) {
      std::byte* block = pool + id * block_bytes + head * head_bytes;
      const float* key = k.data + r * k.stride + int64_t{head} * cache.key_dim;
      const float* value =
          cache.value_in_key ? nullptr : v.data + r * v.stride + int64_t{head} * cache.value_dim;
      const int32_t slot = position % kKvBlock;
      switch (cache.type) {
        case KvType::kF16:
          StoreHead<uint16_t>(cache, block, slot, key, value, ToHalf);
          break;
        case KvType::kF32:
          StoreHead<float>(cache, block, slot, key, value, [](float f) { return f; });
          break;
        case KvType::kQ8_0:
          StoreHeadQ8(cache, block, slot, key, value);
          break;
      }
    }
  });
}

void CpuAttentionItems::Divide(const BatchLayout& layout, int32_t window, int32_t kv_heads,
                               int32_t group) {
  const int32_t rows_per_run = std::max(1, kMaxTaskQueries / group);
  const auto rows = static_cast<int32_t>(layout.positions.size());
  runs.clear();
  for (int32_t begin = 0; begin < rows;) {
    int32_t end = begin, lowest = layout.positions[begin], highest = lowest;
    for (;
         end < rows && end - begin < rows_per_run && layout.sequence[end] == layout.sequence[begin];
         ++end) {
      lowest = std::min(lowest, layout.positions[end]);
      highest = std::max(highest, layout.positions[end]);
    }
    const int32_t first_seen = window > 0 ? std::max(0, lowest - window + 1) : 0;
    runs.push_back({begin, end, first_seen / kAttentionChunk, highest / kAttentionChunk + 1,
                    layout.block_tables[layout.sequence[begin]]});
    begin = end;
  }
  items.clear();
  most_chunks = 0;
  for (const RowRun& run : runs) {
    most_chunks = std::max(most_chunks, run.end_chunk - run.first_chunk);
    const int32_t queries = (run.end - run.begin) * group;
    for (int32_t head = 0; head < kv_heads; ++head) {
      for (int32_t first = 0; first < queries; first += kMaxTaskQueries) {
        items.push_back({&run, head, first, std::min(kMaxTaskQueries, queries - first)});
      }
    }
  }
}

namespace {

using RowRun = CpuAttentionItems::RowRun;
using AttentionItem = CpuAttentionItems::Item;

// What all items of one call share.
struct AttentionCall {
  const kernels::KernelSet* kernels;
  const AttentionParams* params;
  const KvLayer* cache;
  const BatchLayout* layout;
  Activations q, out;
  int32_t group;           // query heads of a KV head
  int64_t partial_floats;  // of a query and a chunk

  int32_t RowOf(const AttentionItem& item, int32_t i) const {
    return item.run->begin + (item.first_query + i) / group;
  }
  int32_t HeadOf(const AttentionItem& item, int32_t i) const {
    return item.kv_head * group + (item.first_query + i) % group;
  }

  // One chunk: partial answers of the item's queries, `partial_floats` apart times `stride`.
  void Attend(const AttentionItem& item, int32_t chunk, float* partials, int64_t stride,
              float* scratch) const {
    AttentionQuery queries[kMaxTaskQueries];
    int32_t highest = 0;
    for (int32_t i = 0; i < item.num_queries; ++i) {
      const int32_t row = RowOf(item, i), head = HeadOf(item, i);
      queries[i] = {
          .q = q.data + row * q.stride + int64_t{head} * cache->key_dim,
          .position = layout->positions[row],
          .alibi_slope = params->alibi_slopes != nullptr ? params->alibi_slopes[head] : 0.0f,
          .partial = partials + i * stride * partial_floats};
      highest = std::max(highest, layout->positions[row]);
    }
    const int32_t first_block = chunk * kBlocksPerChunk;
    const int32_t num_blocks = std::min(kBlocksPerChunk, highest / kKvBlock + 1 - first_block);
    const size_t head_bytes = HeadBytes(*cache);
    const auto* pool = static_cast<const uint8_t*>(cache->blocks->data());
    const uint8_t* blocks[kBlocksPerChunk];
    for (int32_t b = 0; b < num_blocks; ++b) {
      blocks[b] =
          pool + (item.run->blocks[first_block + b] * static_cast<size_t>(cache->num_kv_heads) +
                  item.kv_head) *
                     head_bytes;
    }
    kernels->attend({.format = cache->type,
                     .key_dim = cache->key_dim,
                     .value_dim = cache->value_dim,
                     .value_in_key = cache->value_in_key,
                     .scale = params->scale,
                     .softcap = params->softcap,
                     .window = params->window,
                     .chunk_begin = chunk * kAttentionChunk,
                     .num_blocks = num_blocks,
                     .blocks = blocks,
                     .num_queries = item.num_queries,
                     .queries = queries,
                     .scratch = scratch});
  }
  void Merge(float* partial, const float* other) const {
    kernels->merge_partials(partial, other, cache->value_dim);
  }
  void Finish(const AttentionItem& item, int32_t i, const float* partial) const {
    const int32_t row = RowOf(item, i), head = HeadOf(item, i);
    const float* sink =
        params->sinks != nullptr ? static_cast<const float*>(params->sinks->data) + head : nullptr;
    kernels->finish_attention(partial, sink, cache->value_dim,
                              out.data + row * out.stride + int64_t{head} * cache->value_dim);
  }
};

}  // namespace

void CpuBackend::Attention(const AttentionParams& params, const KvLayer& cache,
                           const BatchLayout& layout, Activations q, Activations out) {
  const int32_t group = params.num_heads / cache.num_kv_heads;
  const AttentionCall call{kernels_, &params, &cache, &layout,
                           q,        out,     group,  (cache.value_dim + 2 + 15) / 16 * 16};
  attention_items_.Divide(layout, params.window, cache.num_kv_heads, group);
  const std::vector<AttentionItem>& items = attention_items_.items;
  const int32_t most_chunks = attention_items_.most_chunks;
  const int threads = pool_.size();
  const int64_t scratch_floats = kernels::AttentionScratchFloats(cache.key_dim, cache.value_dim);
  const auto scratch_of = [&](int thread) {
    return thread_scratch_[thread].attention.Get<float>(scratch_floats);
  };

  // Enough items: each thread takes whole ones and merges their chunks as they come.
  if (most_chunks == 1 || items.size() >= 2 * static_cast<size_t>(threads)) {
    pool_.Run([&](int thread) {
      float* scratch = scratch_of(thread);
      const int64_t set = kMaxTaskQueries * call.partial_floats;
      float* partials = thread_scratch_[thread].partials.Get<float>(2 * set);
      for (size_t i = thread; i < items.size(); i += threads) {
        const AttentionItem& item = items[i];
        for (int32_t chunk = item.run->first_chunk; chunk < item.run->end_chunk; ++chunk) {
          const bool first = chunk == item.run->first_chunk;
          call.Attend(item, chunk, first ? partials : partials + set, 1, scratch);
          if (first) continue;
          for (int32_t j = 0; j < item.num_queries; ++j) {
            call.Merge(partials + j * call.partial_floats,
                       partials + set + j * call.partial_floats);
          }
        }
        for (int32_t j = 0; j < item.num_queries; ++j)
          call.Finish(item, j, partials + j * call.partial_floats);
      }
    });
    return;
  }

  // Few items and long contexts: threads divide the chunks; their answers are merged in order
  // afterwards.
  const int64_t per_item = kMaxTaskQueries * most_chunks * call.partial_floats;
  float* partials = partials_.Get<float>(items.size() * per_item);
  pool_.Run([&](int thread) {
    float* scratch = scratch_of(thread);
    int turn = 0;
    for (int32_t c = 0; c < most_chunks; ++c) {  // outside, for the last ones are short
      for (size_t i = 0; i < items.size(); ++i) {
        const int32_t chunk = items[i].run->first_chunk + c;
        if (chunk >= items[i].run->end_chunk || turn++ % threads != thread) continue;
        call.Attend(items[i], chunk, partials + i * per_item + c * call.partial_floats, most_chunks,
                    scratch);
      }
    }
  });
  for (size_t i = 0; i < items.size(); ++i) {
    const int32_t chunks = items[i].run->end_chunk - items[i].run->first_chunk;
    for (int32_t j = 0; j < items[i].num_queries; ++j) {
      float* partial = partials + i * per_item + j * most_chunks * call.partial_floats;
      for (int32_t c = 1; c < chunks; ++c) call.Merge(partial, partial + c * call.partial_floats);
      call.Finish(items[i], j, partial);
    }
  }
}

}  // namespace baton::engine
