// The backend that computes on this machine's CPUs: weights stay in their mapping, threads divide
// outputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/thread_pool.h"
#include "kernels/kernel_set.h"

namespace baton::engine {

// Memory that grows and is kept, so that nothing is allocated once the first large micro-batch has
// passed.
class ScratchBuffer final : public DeviceBuffer {
 public:
  void* data() override { return data_.get(); }
  size_t bytes() const override { return bytes_; }

  // At least `count` values, aligned to 64 bytes; what was there may be lost.
  template <class T>
  T* Get(size_t count) {
    return static_cast<T*>(Reserve(count * sizeof(T)));
  }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  void* Reserve(size_t bytes);
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

// How attention of a micro-batch is divided. Kept from one call to the next, for their memory.
struct CpuAttentionItems {
  // Consecutive rows of one sequence, and the chunks that they see.
  struct RowRun {
    int32_t begin, end;  // rows
    int32_t first_chunk, end_chunk;
    std::span<const int32_t> blocks;
  };
  // One run of rows, one KV head, some of its query heads: what a thread does at a time.
  struct Item {
    const RowRun* run;
    int32_t kv_head;
    int32_t first_query, num_queries;  // of the run's rows x heads of the group
  };
  std::vector<RowRun> runs;
  std::vector<Item> items;
  int32_t most_chunks = 0;  // of a run

  // group: query heads of a KV head.
  void Divide(const BatchLayout& layout, int32_t window, int32_t kv_heads, int32_t group);
};

// Owner: a worker. One thread calls it; each operation has ended when it returns.
class CpuBackend final : public Backend {
 public:
  CpuBackend(const kernels::KernelSet* kernels, int threads);

  std::string_view name() const override { return name_; }
  std::string_view device() const override { return "cpu"; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(size_t bytes) override;
  absl::StatusOr<Weight> Prepare(const TensorView& tensor) override;
  size_t KvBlockBytes(const KvLayer& layer) const override;
  void ToHost(Activations from, float* to) override;
  void FromHost(const float* from, Activations to) override;
  void Copy(Activations from, Activations to) override;
  absl::Status Sync() override { return absl::OkStatus(); }

  void Embed(const Weight& table, std::span<const TokenId> ids, Activations out) override;
  void MatMul(Activations x, std::span<const MatMulTarget> targets) override;
  void FineMatMul(Activations x, std::span<const MatMulTarget> targets) override;
  void HeadMatMul(Activations x, const Weight& weight, Activations out) override;

  void Norm(NormKind kind, float eps, Activations x, const Weight* weight, const Weight* bias,
            Activations out) override;
  void Add(Activations a, Activations b, float scale, Activations out) override;
  void AddBias(Activations x, const Weight& bias) override;
  void Scale(Activations x, float factor) override;
  void SoftCap(Activations x, float cap) override;
  void Clamp(Activations x, float limit) override;
  void Activate(const ActivationParams& params, Activations x) override;
  void GatedActivation(const ActivationParams& params, Activations gate, Activations up,
                       Activations out) override;
  void ActivatedMatMul(const ActivationParams& params, Activations x, const MatMulTarget* gate,
                       const MatMulTarget& up) override;

  RopeTable MakeRopeTable(const RopeParams& params, const BatchLayout& layout) override;
  void Rope(const RopeTable& table, int32_t head_dim, Activations x) override;

  void StoreKv(const KvLayer& cache, const BatchLayout& layout, Activations k,
               Activations v) override;
  void Attention(const AttentionParams& params, const KvLayer& cache, const BatchLayout& layout,
                 Activations q, Activations out) override;

  Routing Route(const RouterParams& params, Activations logits) override;
  void ExpertMatMul(const Routing& routing, Activations x, const Weight& weight, const Weight* bias,
                    Activations out) override;
  void ActivatedExpertMatMul(const ActivationParams& params, const Routing& routing, Activations x,
                             const MatMulTarget& gate, const MatMulTarget& up) override;
  void ExpertSum(const Routing& routing, Activations x, Activations out) override;

 private:
  // Calls f(row) for each row, rows divided among the threads; small operations stay on the calling
  // thread.
  template <class F>
  void ForRows(const Activations& x, const F& f) {
    ForThreadRows(x, [&](int, int32_t r) { f(r); });
  }
  // The same with f(thread, row).
  template <class F>
  void ForThreadRows(const Activations& x, const F& f) {
    constexpr int64_t kSmallOperation = 16 << 10;  // values; fewer are not worth waking threads
    if (x.rows < 2 || int64_t{x.rows} * x.cols < kSmallOperation) {
      for (int32_t r = 0; r < x.rows; ++r) f(0, r);
      return;
    }
    pool_.Run([&](int thread) {
      const Share share = ShareOf(x.rows, thread, pool_.size());
      for (int64_t r = share.begin; r < share.end; ++r) f(thread, static_cast<int32_t>(r));
    });
  }

  // Rounded activations of `rows` rows of `cols` values; row(r) gives where row r begins. One
  // buffer a format. Fine: row 2r is row r, and row 2r + 1 what its rounding leaves over.
  template <class RowAt>
  kernels::RoundedRows Round(kernels::ActivationFormat format, int32_t rows, int32_t cols,
                             const RowAt& row, bool fine = false);
  kernels::RoundedRows ReserveRounded(kernels::ActivationFormat format, int32_t rows, int32_t cols);
  // One input of products, rounded for each format that their weights ask for.
  struct Input {
    Activations x;
    bool fine = false;
    kernels::RoundedRows rounded[4];  // by ActivationFormat
  };
  Input RoundFor(Activations x, std::span<const MatMulTarget> targets, bool fine = false);
  static kernels::MatMulArgs ArgsOf(const Input& input, const MatMulTarget& target);
  // One product for output columns [begin, end) on the calling thread.
  void MatMulColumns(kernels::MatMulArgs args, const Weight& weight, int thread, int64_t begin,
                     int64_t end);
  void MultiplyTargets(Activations x, std::span<const MatMulTarget> targets, bool fine);

  // Pairs of a row and an expert, in order of the expert.
  struct ExpertSlots {
    int32_t experts;
    const int32_t* begin;     // [experts + 1]
    const int32_t* x_rows;    // [slots]
    const int32_t* out_rows;  // [slots]
  };
  ExpertSlots SortByExpert(const Routing& routing, Activations x, int32_t experts);
  void MultiplyExpertColumns(const Input& input, const ExpertSlots& slots,
                             const MatMulTarget& target, int thread, int64_t begin, int64_t end);

  // up = f(gate) * up in columns [begin, end), or f(up) without a gate, on the calling thread.
  void ActivateColumns(const ActivationParams& params, const MatMulTarget* gate,
                       const MatMulTarget& up, int64_t begin, int64_t end) const;
  void GateValues(const ActivationParams& params, const float* gate, const float* up, int32_t n,
                  float* out) const;
  // up = f(gate) * up, or f(up), of products that threads make by columns: multiply(target, thread,
  // begin, end).
  template <class Multiply>
  void ActivateProducts(const ActivationParams& params, const MatMulTarget* gate,
                        const MatMulTarget& up, const Multiply& multiply);

  // A small buffer for as long as somebody holds it.
  std::shared_ptr<DeviceBuffer> Borrow(size_t bytes);

  const kernels::KernelSet* kernels_;
  ThreadPool pool_;
  std::string name_;

  struct RoundedScratch {
    ScratchBuffer values, scales, sums;
  };
  RoundedScratch rounded_[4];  // by ActivationFormat
  struct ThreadScratch {
    ScratchBuffer matmul, attention, partials, left_over;
  };
  std::vector<ThreadScratch> thread_scratch_;
  CpuAttentionItems attention_items_;
  ScratchBuffer partials_;            // of attention whose chunks are divided among the threads
  std::vector<int32_t> expert_rows_;  // [experts + 1] ends, then row lists
  std::vector<std::shared_ptr<ScratchBuffer>> lent_;
};

}  // namespace baton::engine
