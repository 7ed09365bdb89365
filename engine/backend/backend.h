// What a stage computes with: memory and a dozen operations over micro-batches, on CPU or CUDA.
//
// Shapes and types were checked when weights were bound, so operations return nothing and cannot
// meet "unsupported". Owner: a worker. One thread (the stage's) calls the operations, in order; a
// backend may queue them (CUDA), so results are only there after Sync or a copy to the host. Each
// operation's arithmetic is fixed by kernels/ARITHMETIC.md: the bits of a row do not depend on the
// other rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/tensor/logit_summary.h"
#include "engine/tensor/operation_params.h"
#include "engine/tensor/tensor_view.h"

namespace baton::engine {

// float32 activations in backend memory: [rows, cols], rows `stride` floats apart. A view.
struct Activations {
  float* data = nullptr;
  int32_t rows = 0;
  int32_t cols = 0;
  int64_t stride = 0;

  // Columns [begin, begin + count) of each row.
  Activations Columns(int32_t begin, int32_t count) const {
    return {data + begin, rows, count, stride};
  }
  Activations Rows(int32_t begin, int32_t count) const {
    return {data + begin * stride, count, cols, stride};
  }
};

// Backend memory. Owner: who asked for it.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual void* data() = 0;  // a device pointer on CUDA
  virtual size_t bytes() const = 0;
};

// A weight that is ready for the backend: the mapping's own bytes on CPU, a device copy on CUDA.
// Owner: engine/model.
struct Weight {
  kernels::QuantType type = kernels::QuantType::kF32;
  std::array<int64_t, 4> ne = {1, 1, 1, 1};  // [in, out] or [in, out, slices]
  const void* data = nullptr;
  std::shared_ptr<DeviceBuffer> storage;  // null where the mapping is used
};

// What a weight's activations are rounded to before they meet it.
inline kernels::ActivationFormat FormatOf(const Weight& weight) {
  return kernels::TraitsOf(weight.type).activation;
}
// The values of an F32 weight, such as a norm's or a bias; null: none.
inline const float* FloatsOf(const Weight* weight) {
  return weight != nullptr ? static_cast<const float*>(weight->data) : nullptr;
}

// The KV cache of one layer: a pool of blocks of kKvBlockPositions positions. What a block looks
// like inside is the backend's own affair.
struct KvLayer {
  KvType type = KvType::kF16;
  int32_t num_kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  bool value_in_key = false;  // latent attention: a value is the first value_dim numbers of its key
  DeviceBuffer* blocks = nullptr;  // [num_blocks, KvBlockBytes]
};

// Where each row of a micro-batch stands. Host memory; alive until Sync.
struct BatchLayout {
  std::vector<int32_t> positions;  // [rows]
  std::vector<int32_t> sequence;   // [rows], index into block_tables
  std::vector<std::span<const int32_t>>
      block_tables;  // [sequences] of block ids in order of position
};

// Sines and cosines of one micro-batch; made once, used by all layers. Backend memory.
struct RopeTable {
  const RopeParams* params = nullptr;
  std::shared_ptr<DeviceBuffer>
      cos_sin;  // [rows, 2, dims / 2]: cosines, then sines; magnitude included
};

struct AttentionParams {
  int32_t num_heads = 0;
  float scale = 0;
  float softcap = 0;   // 0: none. c * tanh(score / c), after scale, before the mask
  int32_t window = 0;  // 0: none. A row at p sees (p - window, p]
  const Weight* sinks =
      nullptr;  // [num_heads] or none: one more logit in each softmax, without a value
  const float* alibi_slopes =
      nullptr;  // host memory, [num_heads] or none: + slope * (key position - query position)
};

// One product of an activation with a weight: out = x * weight^T (+ bias).
struct MatMulTarget {
  const Weight* weight = nullptr;  // [cols of x, cols of out]
  const Weight* bias = nullptr;    // F32 [cols of out] or none
  Activations out;
};

struct RouterParams {
  RouterScore score = RouterScore::kSoftmax;
  int32_t num_experts = 0;
  int32_t num_used = 0;
  int32_t num_groups = 0;  // choose groups first (0 or 1: no groups)
  int32_t num_used_groups = 0;
  bool normalize = false;                  // weights of the chosen sum to 1
  float scale = 1.0f;                      // of the weights, at the end
  const Weight* selection_bias = nullptr;  // F32 [num_experts]: added for the choice only
};
// Experts chosen for each row and their weights. Backend memory, made by Route.
struct Routing {
  int32_t rows = 0;
  int32_t num_used = 0;
  std::shared_ptr<DeviceBuffer> experts;  // int32 [rows, num_used]; equal scores: lowest id first
  std::shared_ptr<DeviceBuffer> weights;  // float [rows, num_used]
};

// What a stage is about to ask a backend for.
struct MemoryNeed {
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t scratch_bytes = 0;
  // Of the largest matrix that is an operation's input or output, logits left out: what the backend
  // keeps beside it, rounded, follows from this.
  uint64_t largest_activations = 0;
};

// Memory that is a device's own.
struct DeviceMemory {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  std::string device_id;  // the same for all processes that use it
};

// Activations on their way to the host. Owner: who asked for them; the backend outlives it.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  // Waits for them, and for nothing queued later: [rows, cols], packed.
  virtual absl::Status Take(std::vector<float>& to) = 0;
};

// What a backend keeps of work that is repeated. Owner: who owns the memory that the work uses, and
// never longer than that.
class RepeatedWork {
 public:
  virtual ~RepeatedWork() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;    // "cpu (avx2, 2 threads)", for people
  virtual std::string_view device() const = 0;  // "cpu", "cuda:0"

  // None where the backend computes in the host's memory. Any thread.
  virtual std::optional<DeviceMemory> device_memory() const { return std::nullopt; }

  // Whether there is room for a stage, before anything is allocated; sets its own scratch aside.
  // ResourceExhausted says with a table what it takes and what is there. On CPU the system decides.
  virtual absl::Status Plan(const MemoryNeed& need) {
    (void)need;
    return absl::OkStatus();
  }

  // Memory. ResourceExhausted says how much was asked and what is there.
  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(size_t bytes) = 0;
  // Unimplemented names a type that has no kernel. The view's bytes stay where they are on CPU and
  // must outlive the weight.
  virtual absl::StatusOr<Weight> Prepare(const TensorView& tensor) = 0;
  virtual size_t KvBlockBytes(const KvLayer& layer) const = 0;  // of one block, key and value
  virtual void ToHost(Activations from, float* to) = 0;         // [rows, cols], packed; waits
  virtual void FromHost(const float* from, Activations to) = 0;
  // Whether the device computes on while a copy leaves it. Then StartToHost copies what `from`
  // holds when all that is queued now is done; it may be overwritten by what is queued after. Null
  // after an error.
  virtual bool overlaps_copies() const { return false; }
  virtual std::unique_ptr<HostCopy> StartToHost(Activations from) {
    (void)from;
    return nullptr;
  }
  // What `questions` ask about rows of logits [rows, vocabulary], so that the rows can stay where
  // they are; those without a question are passed over. Waits. Only of a backend that says so: on
  // CPU the rows are at hand. Summaries are not sound after an error.
  virtual bool summarizes_logits() const { return false; }
  virtual std::vector<LogitSummary> SummarizeLogits(
      Activations logits, std::span<const std::optional<LogitQuestion>> questions) {
    (void)logits;
    return std::vector<LogitSummary>(questions.size());
  }
  // Waits for all that is queued. Operations return nothing: what went wrong in one since the last
  // Sync is said here, and results since then are worth nothing.
  virtual absl::Status Sync() = 0;
  // The same without waiting: what is known to have gone wrong by now.
  virtual absl::Status TakeError() { return absl::OkStatus(); }

  // Rows of the embedding table.
  virtual void Embed(const Weight& table, std::span<const TokenId> ids, Activations out) = 0;
  // Several products that share x: its rounding is done once.
  virtual void MatMul(Activations x, std::span<const MatMulTarget> targets) = 0;
  // The same with activations of about twice the bits, for the products that a model is most
  // sensitive to: x rounded, and what that leaves over rounded again.
  virtual void FineMatMul(Activations x, std::span<const MatMulTarget> targets) = 0;
  // Each head with its own slice of weight [in, out, heads]: x [rows * heads, in] -> out [rows *
  // heads, out]. The head is the faster index, so with packed heads this is [rows, heads * in]; a
  // wider stride leaves room beside each head.
  virtual void HeadMatMul(Activations x, const Weight& weight, Activations out) = 0;

  virtual void Copy(Activations from,
                    Activations to) = 0;  // same rows and cols; they don't overlap

  // out = norm(x) * weight + bias, row by row over x.cols; weight and bias F32 [cols] or null. x
  // may be out.
  virtual void Norm(NormKind kind, float eps, Activations x, const Weight* weight,
                    const Weight* bias, Activations out) = 0;
  // out = a + scale * b. Any of them may be the same.
  virtual void Add(Activations a, Activations b, float scale, Activations out) = 0;
  virtual void AddBias(Activations x, const Weight& bias) = 0;  // x += bias, row by row
  virtual void Scale(Activations x, float factor) = 0;
  virtual void Clamp(Activations x, float limit) = 0;  // to [-limit, limit]
  virtual void SoftCap(Activations x, float cap) = 0;  // cap * tanh(x / cap)
  virtual void Activate(const ActivationParams& params, Activations x) = 0;
  virtual void GatedActivation(const ActivationParams& params, Activations gate, Activations up,
                               Activations out) = 0;
  // The way into a feed-forward network: up.out = f(x * gate^T) * (x * up^T), or f(x * up^T)
  // without a gate. What gate->out holds afterwards is unspecified.
  virtual void ActivatedMatMul(const ActivationParams& params, Activations x,
                               const MatMulTarget* gate, const MatMulTarget& up) {
    if (gate == nullptr) {
      MatMul(x, {&up, 1});
      return Activate(params, up.out);
    }
    const std::array<MatMulTarget, 2> targets = {*gate, up};
    MatMul(x, targets);
    GatedActivation(params, gate->out, up.out, up.out);
  }

  virtual RopeTable MakeRopeTable(const RopeParams& params, const BatchLayout& layout) = 0;
  // x [rows, heads * head_dim], in place.
  virtual void Rope(const RopeTable& table, int32_t head_dim, Activations x) = 0;

  // k [rows, num_kv_heads * key_dim], v [rows, num_kv_heads * value_dim] (unused with value_in_key)
  // into the cache.
  virtual void StoreKv(const KvLayer& cache, const BatchLayout& layout, Activations k,
                       Activations v) = 0;
  // q [rows, num_heads * key_dim] -> out [rows, num_heads * value_dim]; each row sees its sequence
  // up to its own position.
  virtual void Attention(const AttentionParams& params, const KvLayer& cache,
                         const BatchLayout& layout, Activations q, Activations out) = 0;

  // Does `work`, which calls operations on micro-batches of this layout and nothing else. A backend
  // may note what it queues and queue the same again for later micro-batches, whose layouts differ
  // in what they say but have as many rows and chunks: without calling `work`, which must therefore
  // depend on nothing else. `kept` is where it keeps its notes; empty at first.
  virtual void Repeat(const BatchLayout& layout, std::unique_ptr<RepeatedWork>& kept,
                      const std::function<void()>& work) {
    (void)layout, (void)kept;
    work();
  }

  // Mixture of experts. logits [rows, num_experts].
  virtual Routing Route(const RouterParams& params, Activations logits) = 0;
  // For each row and chosen expert e: out[row, slot] = x * weight[e]^T + bias[e]. x is [rows, in]
  // (shared by the slots) or [rows * num_used, in]; out [rows * num_used, out]. bias F32 [out,
  // experts] or null.
  virtual void ExpertMatMul(const Routing& routing, Activations x, const Weight& weight,
                            const Weight* bias, Activations out) = 0;
  // The same twice, as ActivatedMatMul does it: up.out = f(gate) * up.
  virtual void ActivatedExpertMatMul(const ActivationParams& params, const Routing& routing,
                                     Activations x, const MatMulTarget& gate,
                                     const MatMulTarget& up) {
    ExpertMatMul(routing, x, *gate.weight, gate.bias, gate.out);
    ExpertMatMul(routing, x, *up.weight, up.bias, up.out);
    GatedActivation(params, gate.out, up.out, up.out);
  }
  // out[row] = sum over slots of weight * x[row * num_used + slot], in slot order.
  virtual void ExpertSum(const Routing& routing, Activations x, Activations out) = 0;
};

// threads 0: as many as the process may use. InvalidArgument names an unknown device or instruction
// set; FailedPrecondition says why a device that was asked for can't be used. "auto" is the first
// CUDA device that this build has kernels for, or else the CPU.
struct BackendOptions {
  std::string_view device = "auto";  // auto | cpu | cuda | cuda:N | cuda:GPU-UUID
  int threads = 0;
};
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

}  // namespace baton::engine
