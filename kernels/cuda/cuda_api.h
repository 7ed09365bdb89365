// CUDA as the engine sees it: a table of functions, without a header of CUDA. kernels/cuda/*.cu
// fill it; tests fill another one from the same sources, compiled for the CPU (tests/support/
// cuda_emulation.h).
//
// Pointers in arguments are device memory unless they say "host". Kernels are queued on the stream
// and return at once; one thread calls a stream's functions. All follow ARITHMETIC.md to the bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kernel_set.h"
#include "kernels/quant_types.h"

namespace baton::kernels {

using CudaStream = void*;
using CudaEvent = void*;
using CudaRecording = void*;
using CudaError = int;  // CUDA's own numbers
inline constexpr CudaError kCudaOk = 0;
inline constexpr CudaError kCudaOutOfMemory = 2;

struct CudaDevice {
  char name[256];
  char uuid[48];             // "GPU-…", as nvidia-smi prints it
  char bus_id[16];           // "0000:01:00.0"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
};

// float [rows, cols], rows `stride` floats apart.
struct CudaMatrix {
  float* data = nullptr;
  int32_t rows = 0;
  int32_t cols = 0;
  int64_t stride = 0;
};

// How rows are rounded for products (ARITHMETIC.md, "Activations"), and where to. `fine`: row r
// becomes rows 2r and, what its rounding leaves over, 2r + 1.
struct CudaRounding {
  ActivationFormat format = ActivationFormat::kNone;
  bool fine = false;
  RoundedRows rows;
};

// out = a + scale * b.
struct CudaAddArgs {
  CudaMatrix a, b;
  float scale = 1;
  CudaMatrix out;
};

// out = norm(x) * weight + bias, each where it is given. x may be out.
struct CudaNormArgs {
  bool layer = false;  // or else by the root of the mean square
  float eps = 0;
  CudaMatrix x;
  const float* weight = nullptr;  // [cols]
  const float* bias = nullptr;    // [cols]
  CudaMatrix out;
  CudaAddArgs sum;  // that makes x first, where its out is x
};

// out = f(gate) * up, or f(gate) without up.
struct CudaActivateArgs {
  UnaryOp op = UnaryOp::kSilu;
  bool clamped = false;  // gated: clamped by `limit`, in place of op
  float limit = 0;
  CudaMatrix gate, up, out;
};

// Turns pairs of each head, (offset + i, offset + half + i) or (offset + 2i, offset + 2i + 1), in
// the same rows of two matrices.
struct CudaRopeArgs {
  bool halves = true;
  const float* cos_sin = nullptr;  // [rows, 2, half]
  int32_t half = 0;
  int32_t head_dim = 0;
  int32_t offset = 0;
  CudaMatrix x;
  CudaMatrix more;  // or none
};

struct CudaMatMulTarget {
  const uint8_t* weight = nullptr;  // [weights, outs, row_bytes], device_layout.h
  int32_t outs = 0;                 // n
  const float* bias = nullptr;      // [weights, outs] or null
  float* out = nullptr;
  int64_t out_stride = 0;
};
inline constexpr int kMostCudaTargets = 3;

// out[o][n] = sum over k of weight[w(z)][n][k] * x[i][k] + bias[w(z)][n], for each target, each
// slice z and each row of it. w(z) is z, or as slice_weights says. Which rows of x and out a slice
// has:
//  - without lists, row r of slice z is out row r * slices + z and x row (r * slices + z) /
//    slices_per_x_row: so heads have their slices, and one slice has all rows;
//  - with lists, [slice_begin[z], slice_begin[z + 1]) of x_rows and out_rows.
struct CudaMatMulArgs {
  QuantType type = QuantType::kF32;
  int32_t cols = 0;  // k
  int64_t row_bytes = 0;
  CudaMatMulTarget targets[kMostCudaTargets];  // that share x, in one kernel
  int32_t num_targets = 1;
  int32_t slices = 1;
  int32_t rows = 0;   // of a slice; with lists: the most a slice can have
  bool fine = false;  // rows 2r and 2r + 1 together are row r of out; one slice, without lists
  const int32_t* slice_weights = nullptr;  // [slices] or null
  int32_t slices_per_x_row = 1;
  const int32_t* slice_begin = nullptr;  // [slices + 1] or null
  const int32_t* x_rows = nullptr;
  const int32_t* out_rows = nullptr;
  const float* x = nullptr;  // kFloat types
  int64_t x_stride = 0;
  RoundedRows rounded;  // the other types
};

// Where each row of a micro-batch stands: its block table begins at block_ids[table_begins[row]].
struct CudaLayout {
  const int32_t* positions = nullptr;     // [rows]
  const int32_t* table_begins = nullptr;  // [rows]
  const int32_t* block_ids = nullptr;
};

// A layer's KV cache. A block holds, for each KV head, its keys [key_dim / 8, 32 positions, 8], the
// last eight dimensions padded, and then its values [32 positions, value_dim]: a lane that scores a
// position loads eight numbers of its key, side by side with its neighbours'. With kQ8_0 keys are
// followed by their scales [groups, 32 positions], values by theirs [32 positions, groups].
struct CudaKv {
  uint8_t* blocks = nullptr;
  KvType format = KvType::kF16;
  int32_t num_kv_heads = 0;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  bool value_in_key = false;
};
// Bytes of one number, but for kQ8_0's scales.
constexpr int KvNumberBytes(KvType format) {
  return format == KvType::kF32 ? 4 : format == KvType::kF16 ? 2 : 1;
}
constexpr int64_t KvScaleBytes(KvType format, int32_t dim) {
  return format == KvType::kQ8_0 ? int64_t{2} * KvGroups(dim) * kKvBlock : 0;
}
constexpr int64_t CudaKeyBytes(const CudaKv& kv) {  // without scales
  return int64_t{kKvBlock} * ((kv.key_dim + 7) / 8 * 8) * KvNumberBytes(kv.format);
}
// Where a head's values begin in its part of a block.
constexpr int64_t CudaValuesAt(const CudaKv& kv) {
  return CudaKeyBytes(kv) + KvScaleBytes(kv.format, kv.key_dim);
}
constexpr int64_t CudaKvHeadBytes(const CudaKv& kv) {
  if (kv.value_in_key) return CudaValuesAt(kv);
  return CudaValuesAt(kv) + int64_t{kKvBlock} * kv.value_dim * KvNumberBytes(kv.format) +
         KvScaleBytes(kv.format, kv.value_dim);
}
constexpr int64_t CudaKvBlockBytes(const CudaKv& kv) {
  return CudaKvHeadBytes(kv) * kv.num_kv_heads;
}

struct CudaAttentionArgs {
  CudaKv kv;
  CudaLayout layout;
  int32_t num_heads = 0;
  float scale = 0;
  float softcap = 0;                    // 0: none
  int32_t window = 0;                   // 0: none
  const float* sinks = nullptr;         // [num_heads] or null
  const float* alibi_slopes = nullptr;  // [num_heads] or null
  CudaMatrix q;                         // [rows, num_heads * key_dim]
  CudaMatrix out;                       // [rows, num_heads * value_dim]
  int32_t rows_together = 1;            // neighbouring rows that may be of one sequence
  // Chunks are divided among blocks where `partials` is given: [rows, num_heads, chunks,
  // value_dim + 2].
  int32_t chunks = 1;
  float* partials = nullptr;
};

enum class CudaRouterScore : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfChosen };
struct CudaRouteArgs {
  CudaRouterScore score = CudaRouterScore::kSoftmax;
  CudaMatrix logits;  // [rows, experts]
  int32_t num_used = 0;
  int32_t num_groups = 0;
  int32_t num_used_groups = 0;
  bool normalize = false;
  float scale = 1;
  const float* selection_bias = nullptr;
  int32_t* experts = nullptr;  // [rows, num_used]
  float* weights = nullptr;    // [rows, num_used]
};
inline constexpr int kMaxCudaExperts = 1024;
inline constexpr int kMaxCudaExpertGroups = 64;

// Slots in order of their expert, for CudaMatMulArgs. Inside an expert they keep their order.
struct CudaGroupArgs {
  const int32_t* experts = nullptr;  // [slots]
  int32_t slots = 0;
  int32_t num_experts = 0;
  int32_t slots_per_row = 1;       // that share a row of x
  int32_t* slice_begin = nullptr;  // [num_experts + 1]
  int32_t* x_rows = nullptr;       // [slots]
  int32_t* out_rows = nullptr;     // [slots]
};

// What is said of a row of logits: a head, the best, the logits that were asked for. A matrix of
// words, so that one copy takes all rows to the host.
inline constexpr int32_t kMostCudaBest = 256;
inline constexpr int32_t kCudaSortedAtOnce = 2048;
struct CudaSummaryHead {
  int32_t found;  // of the best; the others are -infinity. -1: a logit is NaN or +infinity
  int32_t unused;
  double weight_sum;
};
struct CudaBestLogit {
  int32_t id;
  float logit;
};
struct CudaSummary {
  CudaSummaryHead* head;
  CudaBestLogit* best;  // [count], then float [num_asked]
};
constexpr int64_t CudaSummaryWords(int32_t count, int32_t num_asked) {  // even, for the double
  return (sizeof(CudaSummaryHead) / 4 + int64_t{2} * count + num_asked + 1) / 2 * 2;
}
BATON_HD inline CudaSummary CudaSummaryOf(const CudaMatrix& summaries, int32_t row) {
  auto* head = reinterpret_cast<CudaSummaryHead*>(summaries.data + row * summaries.stride);
  return {head, reinterpret_cast<CudaBestLogit*>(head + 1)};
}
// Keys of 64 bits that Summarize needs beside.
constexpr int64_t CudaSummaryKeys(int32_t rows, int32_t cols, int32_t count) {
  return int64_t{2} * rows * count * ((cols - 1) / kCudaSortedAtOnce + 1);
}
struct CudaSummaryArgs {
  CudaMatrix logits;               // [rows, vocabulary]
  int32_t count = 0;               // of the best: 1 to kMostCudaBest
  const int32_t* asked = nullptr;  // ids [rows, num_asked]
  int32_t num_asked = 0;
  bool weight_sums = false;
  uint64_t* keys = nullptr;  // [CudaSummaryKeys]
  CudaMatrix out;            // [rows, CudaSummaryWords]
};

struct CudaApi {
  // Devices. None of the first three makes a context.
  CudaError (*count_devices)(int* count) = nullptr;
  CudaError (*describe_device)(int index, CudaDevice* device) = nullptr;
  void (*versions)(int* driver, int* runtime) = nullptr;  // 13000 is 13.0; driver 0: none
  const char* (*error_text)(CudaError error) = nullptr;
  const char* architectures = nullptr;            // "75,80,…", what kernels were compiled for
  CudaError (*open_device)(int index) = nullptr;  // makes it the thread's; fails without kernels
  CudaError (*make_current)(int index) = nullptr;
  CudaError (*memory_info)(uint64_t* free_bytes, uint64_t* total_bytes) = nullptr;

  // Memory and streams. Copies are queued; host memory that is not pinned may be reused at once.
  CudaError (*allocate)(size_t bytes, void** data) = nullptr;
  void (*release)(void* data) = nullptr;
  CudaError (*allocate_pinned)(size_t bytes, void** host) = nullptr;
  void (*release_pinned)(void* host) = nullptr;
  CudaError (*create_stream)(CudaStream* stream) = nullptr;
  void (*destroy_stream)(CudaStream stream) = nullptr;
  CudaError (*upload)(void* to, const void* host, size_t bytes, CudaStream stream) = nullptr;
  CudaError (*upload_rows)(CudaMatrix to, const float* host, CudaStream stream) = nullptr;
  CudaError (*download_rows)(CudaMatrix from, float* host, CudaStream stream) = nullptr;
  CudaError (*wait)(CudaStream stream) = nullptr;  // and reports what went wrong until then

  // Events: places in what is queued on a stream. One that was never recorded is past.
  CudaError (*create_event)(CudaEvent* event) = nullptr;
  void (*destroy_event)(CudaEvent event) = nullptr;
  CudaError (*record_event)(CudaEvent event, CudaStream stream) = nullptr;
  CudaError (*await_event)(CudaStream stream, CudaEvent event) = nullptr;  // the stream waits
  CudaError (*wait_event)(CudaEvent event) = nullptr;                      // the host does

  // Kernels that are queued again and again with the arguments they had (CUDA's graphs). Between
  // the first two calls what is queued on the stream is noted in its place; nothing may wait for it
  // or copy from or to the host then.
  CudaError (*begin_recording)(CudaStream stream) = nullptr;
  CudaError (*end_recording)(CudaStream stream, CudaRecording* recording) = nullptr;
  CudaError (*replay)(CudaRecording recording, CudaStream stream) = nullptr;
  void (*release_recording)(CudaRecording recording) = nullptr;

  // Products.
  bool (*has_matmul)(QuantType type) = nullptr;
  void (*matmul)(const CudaMatMulArgs& args, CudaStream stream) = nullptr;

  // Rounding of rows, and operations that can round what they make by the way (of kNone: don't).
  void (*round)(const CudaMatrix& x, const CudaRounding& rounding, CudaStream stream) = nullptr;
  void (*add)(const CudaAddArgs& args, const CudaRounding& rounding, CudaStream stream) = nullptr;
  void (*norm)(const CudaNormArgs& args, const CudaRounding& rounding, CudaStream stream) = nullptr;
  void (*activate)(const CudaActivateArgs& args, const CudaRounding& rounding,
                   CudaStream stream) = nullptr;

  // Rows; what they do stands in engine/backend/backend.h.
  void (*embed)(QuantType type, const uint8_t* table, int64_t row_bytes, const int32_t* ids,
                CudaMatrix out, CudaStream stream) = nullptr;
  void (*copy)(CudaMatrix from, CudaMatrix to, CudaStream stream) = nullptr;
  void (*add_bias)(CudaMatrix x, const float* bias, CudaStream stream) = nullptr;
  void (*scale)(CudaMatrix x, float factor, CudaStream stream) = nullptr;
  void (*soft_cap)(CudaMatrix x, float cap, CudaStream stream) = nullptr;
  void (*clamp)(CudaMatrix x, float limit, CudaStream stream) = nullptr;
  // cos_sin [rows, 2, half]
  void (*rope_table)(const int32_t* positions, int32_t rows, const float* inv_freq, int32_t half,
                     float magnitude, float* cos_sin, CudaStream stream) = nullptr;
  void (*rope)(const CudaRopeArgs& args, CudaStream stream) = nullptr;

  // Attention.
  void (*store_kv)(const CudaKv& kv, const CudaLayout& layout, CudaMatrix k, CudaMatrix v,
                   CudaStream stream) = nullptr;
  void (*attend)(const CudaAttentionArgs& args, CudaStream stream) = nullptr;

  // Experts.
  void (*route)(const CudaRouteArgs& args, CudaStream stream) = nullptr;
  void (*group_slots)(const CudaGroupArgs& args, CudaStream stream) = nullptr;
  // out[r] = sum over slots of weights[r][slot] * x[r * num_used + slot]
  void (*expert_sum)(const float* weights, int32_t num_used, CudaMatrix x, CudaMatrix out,
                     CudaStream stream) = nullptr;

  // Logits.
  void (*summarize_logits)(const CudaSummaryArgs& args, CudaStream stream) = nullptr;
};

// Queries of one KV head that a block of the attention kernel takes together.
inline constexpr int kCudaQueriesTogether = 8;

// Fills in all of it. Linked where nvcc compiled the kernels.
void FillCuda(CudaApi& api);

}  // namespace baton::kernels
