#include "engine/runtime/kv_cache.h"

#include "engine/base/saturating.h"
#include "engine/runtime/micro_batch.h"

namespace baton::engine {
namespace {

KvLayer LayerOf(const HyperParams& hyperparams, int32_t layer, KvType type) {
  return {.type = type,
          .num_kv_heads = hyperparams.cache_heads(layer),
          .key_dim = hyperparams.cache_key_dim(),
          .value_dim = hyperparams.cache_value_dim(),
          .value_in_key = hyperparams.cache_value_in_key()};
}

uint64_t PoolBytes(const KvLayer& layer, int32_t num_blocks, const Backend& backend) {
  return SaturatingProduct({static_cast<uint64_t>(num_blocks), backend.KvBlockBytes(layer)});
}

}  // namespace

uint64_t KvCache::BytesOf(const HyperParams& hyperparams, LayerRange layers, int32_t num_blocks,
                          KvType type, const Backend& backend) {
  uint64_t bytes = 0;
  for (int32_t i = layers.begin; i < layers.end; ++i) {
    bytes = SaturatingSum({bytes, PoolBytes(LayerOf(hyperparams, i, type), num_blocks, backend)});
  }
  return bytes;
}

absl::StatusOr<KvCache> KvCache::Create(const HyperParams& hyperparams, LayerRange layers,
                                        int32_t num_blocks, KvType type, Backend& backend) {
  KvCache cache;
  cache.first_layer_ = layers.begin;
  for (int32_t i = layers.begin; i < layers.end; ++i) {
    KvLayer layer = LayerOf(hyperparams, i, type);
    const uint64_t bytes = PoolBytes(layer, num_blocks, backend);
    auto pool = backend.Allocate(bytes);
    if (!pool.ok()) {
      return Prefixed(
          pool.status(),
          fmt::format("the KV cache needs {} bytes for {} positions (a shorter context, "
                      "fewer sequences or KV type q8_0 need less)",
                      BytesOf(hyperparams, layers, num_blocks, type, backend),
                      int64_t{num_blocks} * kKvBlockPositions));
    }
    layer.blocks = pool->get();
    cache.layers_.push_back(layer);
    cache.pools_.push_back(*std::move(pool));
    cache.bytes_ += bytes;
  }
  return cache;
}

}  // namespace baton::engine
