#include "engine/runtime/kv_cache.h"

namespace baton::engine {
namespace {

KvLayer LayerOf(const HyperParams& hyperparams, int32_t layer, KvType type) {
  return {.type = type,
          .num_kv_heads = hyperparams.cache_heads(layer),
          .key_dim = hyperparams.cache_key_dim(),
          .value_dim = hyperparams.cache_value_dim(),
          .value_in_key = hyperparams.cache_value_in_key()};
}

}  // namespace

uint64_t KvCache::BytesOf(const HyperParams& hyperparams, LayerRange layers, int32_t num_blocks,
                          KvType type, const Backend& backend) {
  uint64_t bytes = 0;
  for (int32_t i = layers.begin; i < layers.end; ++i) {
    bytes +=
        static_cast<uint64_t>(num_blocks) * backend.KvBlockBytes(LayerOf(hyperparams, i, type));
  }
  return bytes;
}

absl::StatusOr<KvCache> KvCache::Create(const HyperParams& hyperparams, LayerRange layers,
                                        int32_t num_blocks, KvType type, Backend& backend) {
  KvCache cache;
  cache.first_layer_ = layers.begin;
  for (int32_t i = layers.begin; i < layers.end; ++i) {
    KvLayer layer = LayerOf(hyperparams, i, type);
    const uint64_t bytes = static_cast<uint64_t>(num_blocks) * backend.KvBlockBytes(layer);
    ASSIGN_OR_RETURN(auto pool, backend.Allocate(bytes));
    layer.blocks = pool.get();
    cache.layers_.push_back(layer);
    cache.pools_.push_back(std::move(pool));
    cache.bytes_ += bytes;
  }
  return cache;
}

}  // namespace baton::engine
