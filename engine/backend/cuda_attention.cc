// The KV cache and attention of the CUDA backend: what stands where is copied to the device once a
// micro-batch, and chunks are divided among blocks of threads where there are few queries.
#include <algorithm>
#include <bit>

#include "engine/backend/cuda_backend.h"

namespace baton::engine {
namespace {

using kernels::CudaAttentionArgs;
using kernels::CudaKv;

CudaKv KvOf(const KvLayer& layer) {
  return {.blocks = layer.blocks != nullptr ? static_cast<uint8_t*>(layer.blocks->data()) : nullptr,
          .format = layer.type,
          .num_kv_heads = layer.num_kv_heads,
          .key_dim = layer.key_dim,
          .value_dim = layer.value_dim,
          .value_in_key = layer.value_in_key};
}

// The most neighbouring rows of one sequence that a kernel takes together.
int32_t Neighbours(const BatchLayout& layout) {
  int32_t longest = 0, run = 0;
  for (size_t i = 0; i < layout.sequence.size(); ++i) {
    run = i > 0 && layout.sequence[i] == layout.sequence[i - 1] ? run + 1 : 1;
    longest = std::max(longest, run);
  }
  return std::min(longest, kernels::kCudaQueriesTogether);
}

// Chunks that there are positions in, or more: a recording serves twice as many steps as the one
// before it. Blocks of threads whose chunk is beyond a row's position end at once.
int32_t ChunksOf(const BatchLayout& layout) {
  const int32_t highest = *std::ranges::max_element(layout.positions);
  return static_cast<int32_t>(
      std::bit_ceil(static_cast<uint32_t>(highest / kernels::kAttentionChunk + 1)));
}

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

constexpr uint64_t kMostPartialBytes = 64 << 20;

}  // namespace

size_t CudaBackend::KvBlockBytes(const KvLayer& layer) const {
  return static_cast<size_t>(kernels::CudaKvBlockBytes(KvOf(layer)));
}

kernels::CudaLayout CudaBackend::LayoutOf(const BatchLayout& layout) {
  // [rows] positions, [rows] where each row's table begins, the tables.
  const size_t rows = layout.positions.size();
  std::vector<int32_t> host = layout.positions;
  host.resize(2 * rows);
  std::vector<int32_t> begins;
  for (const auto& table : layout.block_tables) {
    begins.push_back(static_cast<int32_t>(host.size() - 2 * rows));
    host.insert(host.end(), table.begin(), table.end());
  }
  for (size_t i = 0; i < rows && !begins.empty(); ++i) host[rows + i] = begins[layout.sequence[i]];
  if (host != layout_host_) {
    auto* device = Reserve<int32_t>(layout_device_, host.size());
    if (device == nullptr) return {};
    Upload(device, host.data(), host.size() * sizeof(int32_t));
    if (status_.ok()) layout_host_ = std::move(host);
  }
  const auto* device = static_cast<const int32_t*>(layout_device_.buffer->data());
  return {device, device + rows, device + 2 * rows};
}

CudaWorkShape CudaBackend::ShapeOf(const BatchLayout& layout) {
  return {static_cast<int32_t>(layout.positions.size()), Neighbours(layout), ChunksOf(layout)};
}

void CudaBackend::StoreKv(const KvLayer& cache, const BatchLayout& layout, Activations k,
                          Activations v) {
  if (!Ready() || k.rows == 0) return;
  const kernels::CudaLayout device_layout = LayoutOf(layout);
  if (!status_.ok()) return;
  cuda_.store_kv(KvOf(cache), device_layout, {k.data, k.rows, k.cols, k.stride},
                 {v.data, v.rows, v.cols, v.stride}, stream_);
}

void CudaBackend::DivideChunks(const BatchLayout& layout, CudaAttentionArgs& args) {
  const int32_t chunks = ChunksOf(layout);
  const int64_t queries = int64_t{args.q.rows} * args.num_heads;
  // Blocks of threads without a division; two a multiprocessor fill the device.
  const int64_t items = CeilDiv(args.q.rows, args.rows_together) * args.kv.num_kv_heads *
                        CeilDiv(int64_t{args.rows_together} * args.num_heads / args.kv.num_kv_heads,
                                kernels::kCudaQueriesTogether);
  const auto floats = static_cast<uint64_t>(queries * chunks * (args.kv.value_dim + 2));
  if (chunks == 1 || items >= int64_t{2} * info_.multiprocessors ||
      floats * sizeof(float) > kMostPartialBytes) {
    return;
  }
  args.chunks = chunks;
  args.partials = Reserve<float>(partials_, floats);
}

void CudaBackend::Attention(const AttentionParams& params, const KvLayer& cache,
                            const BatchLayout& layout, Activations q, Activations out) {
  if (!Ready() || q.rows == 0) return;
  const int32_t group = params.num_heads / cache.num_kv_heads;
  CudaAttentionArgs args = {
      .kv = KvOf(cache),
      .layout = LayoutOf(layout),
      .num_heads = params.num_heads,
      .scale = params.scale,
      .softcap = params.softcap,
      .window = params.window,
      .sinks = params.sinks != nullptr ? static_cast<const float*>(params.sinks->data) : nullptr,
      .alibi_slopes =
          params.alibi_slopes != nullptr
              ? ConstantsOf({params.alibi_slopes, static_cast<size_t>(params.num_heads)})
              : nullptr,
      .q = {q.data, q.rows, q.cols, q.stride},
      .out = {out.data, out.rows, out.cols, out.stride},
      .rows_together = std::clamp(kernels::kCudaQueriesTogether / group, 1, Neighbours(layout))};
  DivideChunks(layout, args);
  if (status_.ok()) cuda_.attend(args, stream_);
}

}  // namespace baton::engine
