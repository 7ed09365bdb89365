// The backend that computes on one CUDA device: weights are copied there once, everything after
// them is queued on one stream. kernels/cuda/ does the arithmetic, with the CPU's bits.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda_memory.h"
#include "engine/backend/cuda_recording.h"
#include "kernels/cuda/cuda_api.h"

namespace baton::engine {

inline kernels::CudaMatrix MatrixOf(Activations a) { return {a.data, a.rows, a.cols, a.stride}; }

// Owner: a worker. One thread at a time calls it.
class CudaBackend final : public Backend {
 public:
  // `cuda` outlives the backend. FailedPrecondition: the device has no kernels in this build.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Open(const kernels::CudaApi& cuda, int index);
  ~CudaBackend() override;

  std::string_view name() const override { return name_; }
  std::string_view device() const override { return device_; }

  std::optional<DeviceMemory> device_memory() const override;
  absl::Status Plan(const MemoryNeed& need) override;
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(size_t bytes) override;
  absl::StatusOr<Weight> Prepare(const TensorView& tensor) override;
  size_t KvBlockBytes(const KvLayer& layer) const override;
  void ToHost(Activations from, float* to) override;
  void FromHost(const float* from, Activations to) override;
  bool overlaps_copies() const override { return true; }
  std::unique_ptr<HostCopy> StartToHost(Activations from) override;
  void Copy(Activations from, Activations to) override;
  bool summarizes_logits() const override { return true; }
  std::vector<LogitSummary> SummarizeLogits(
      Activations logits, std::span<const std::optional<LogitQuestion>> questions) override;
  absl::Status Sync() override;
  absl::Status TakeError() override;

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

  RopeTable MakeRopeTable(const RopeParams& params, const BatchLayout& layout) override;
  void Rope(const RopeTable& table, int32_t head_dim, Activations x) override;

  void StoreKv(const KvLayer& cache, const BatchLayout& layout, Activations k,
               Activations v) override;
  void Attention(const AttentionParams& params, const KvLayer& cache, const BatchLayout& layout,
                 Activations q, Activations out) override;

  void Repeat(const BatchLayout& layout, std::unique_ptr<RepeatedWork>& kept,
              const std::function<void()>& work) override;

  Routing Route(const RouterParams& params, Activations logits) override;
  void ExpertMatMul(const Routing& routing, Activations x, const Weight& weight, const Weight* bias,
                    Activations out) override;
  void ExpertSum(const Routing& routing, Activations x, Activations out) override;

 private:
  CudaBackend(const kernels::CudaApi& cuda, int index, const kernels::CudaDevice& device);

  // The calling thread works on this device from now on, and what waited is queued; false after an
  // error, when nothing more is queued until Sync has told of it.
  bool Ready();
  // The same for an operation that can take in the one that waits.
  bool ReadyToTake();
  // Keeps the first error.
  void Note(const absl::Status& status);
  void NoteCuda(kernels::CudaError error, std::string_view where);

  // Device memory that grows and is kept; what was there may be lost. Null after an error.
  struct Scratch {
    std::unique_ptr<CudaBuffer> buffer;
  };
  template <class T>
  T* Reserve(Scratch& scratch, size_t count) {
    return static_cast<T*>(ReserveBytes(scratch, count * sizeof(T)));
  }
  void* ReserveBytes(Scratch& scratch, size_t bytes);
  // Whether waits, copies and allocations are possible: not while kernels are being recorded, and
  // what is recorded then is of no use.
  bool MayTouchHost();
  // Queues a copy of host memory, which may be reused at once.
  void Upload(void* to, const void* host, size_t bytes);
  // A small buffer for this micro-batch; null after an error.
  std::shared_ptr<DeviceBuffer> Borrow(size_t bytes);
  // The same, with a copy of host memory.
  std::shared_ptr<DeviceBuffer> Lend(const void* host, size_t bytes);

  // The operation that was asked for last, if what follows may do it in the same kernel: round its
  // rows for a product, of a sum make its norm, turn keys with queries. It is queued before
  // anything else is.
  using Waiting = std::variant<std::monostate, kernels::CudaAddArgs, kernels::CudaNormArgs,
                               kernels::CudaActivateArgs, kernels::CudaRopeArgs>;
  bool WaitingMakes(Activations x) const;
  void QueueWaiting(const kernels::CudaRounding& rounding = {});
  // Rounds x, by the way where it is what waits.
  void QueueRounding(Activations x, const kernels::CudaRounding& rounding);

  // x as products of this format take it.
  kernels::RoundedRows Round(kernels::ActivationFormat format, Activations x, bool fine);
  void Multiply(Activations x, std::span<const MatMulTarget> targets, bool fine);
  void ExpertMatMulBySlot(const Routing& routing, int32_t slots_per_row,
                          kernels::CudaMatMulArgs args);
  void ExpertMatMulByExpert(const Routing& routing, int32_t slots_per_row,
                            kernels::CudaMatMulArgs args);

  // The layout of the running micro-batch on the device, copied when it has changed.
  kernels::CudaLayout LayoutOf(const BatchLayout& layout);
  // Numbers of a model that operations take from the host; copied once.
  const float* ConstantsOf(std::span<const float> host);
  static CudaWorkShape ShapeOf(const BatchLayout& layout);
  // Memory for the answers of chunks, where there are too few queries to fill the device.
  void DivideChunks(const BatchLayout& layout, kernels::CudaAttentionArgs& args);

  const kernels::CudaApi& cuda_;
  const int index_;
  const kernels::CudaDevice info_;
  const std::string device_;
  const std::string name_;
  std::thread::id thread_;  // that the device is current on
  kernels::CudaStream stream_ = nullptr;
  absl::Status status_;
  Waiting waiting_;
  std::unique_ptr<CudaUploader> uploader_;
  std::unique_ptr<CudaDepartures> departures_;  // made with the first
  CudaArrivals arrivals_;
  CudaPool pool_;

  Scratch values_, scales_, sums_;  // rounded activations
  Scratch partials_;                // of attention
  Scratch summary_keys_, summaries_;

  std::vector<int32_t> layout_host_;  // what layout_device_ holds
  Scratch layout_device_;
  std::map<std::vector<float>, std::unique_ptr<CudaBuffer>> constants_;

  uint64_t moves_ = 0;                 // of scratch, whose addresses recordings hold
  CudaRecorded* recording_ = nullptr;  // what is being recorded
};

}  // namespace baton::engine
