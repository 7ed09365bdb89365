// The CPU's kernels as a table: one row of functions an instruction set. A missing entry falls back
// to the set below.
//
// Kernels are pure functions over memory that the caller owns; any thread may call them, each with
// its own scratch. Shapes and types were checked before. All sets give the same bits
// (ARITHMETIC.md).
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/kv_type.h"
#include "kernels/quant_types.h"

namespace baton::kernels {

inline constexpr int kPanelRows =
    16;  // threads divide the rows of a weight matrix in multiples of this
inline constexpr int kKvBlock = 32;  // positions in a KV block
inline constexpr int kAttentionChunk =
    512;  // positions that share one softmax maximum; chunks are merged in order
inline constexpr int kMaxTaskQueries = 32;  // queries of an attention task
inline constexpr int64_t kScratchBytes =
    512 << 10;  // what a matmul may use; attention says how much it needs

// Activations as a weight type's matmul takes them: `values` of a row share a scale; 0: floats as
// they are.
constexpr int ActivationGroup(ActivationFormat format) {
  return format == ActivationFormat::kInt8By32    ? 32
         : format == ActivationFormat::kInt8By256 ? 256
                                                  : 0;
}
// Rows of rounded activations are padded, so that rows whose length is a power of two don't share
// cache sets.
constexpr int64_t RoundedStride(int32_t cols) { return (cols + 63) / 64 * 64 + 64; }

// Rounded activations. A row of `cols` values is `stride` int8, cols / group scales and cols / 16
// sums of 16 values.
struct RoundedRows {
  int8_t* values = nullptr;  // [rows, stride]
  float* scales = nullptr;   // [rows, cols / group]
  int16_t* sums = nullptr;   // [rows, cols / 16]
  int64_t stride = 0;
};

// out[o(r)][n] = sum over k of weight[n][k] * x[i(r)][k] + bias[n], for n in [begin, end) and r in
// [0, rows). Fine products have two rounded rows an output row (ARITHMETIC.md): 2r is x, 2r + 1
// what its rounding left over.
struct MatMulArgs {
  const uint8_t* weight = nullptr;
  int64_t weight_row_bytes = 0;
  int32_t cols = 0;  // k
  int32_t begin = 0;
  int32_t end = 0;
  int32_t rows = 0;                   // of activations; even where fine
  bool fine = false;                  // without x_rows and out_rows
  const int32_t* x_rows = nullptr;    // i(r); null: r itself
  const int32_t* out_rows = nullptr;  // o(r); null: r itself
  const float* x = nullptr;           // kFloat types
  int64_t x_stride = 0;
  RoundedRows rounded;          // the other types
  const float* bias = nullptr;  // or null
  float* out = nullptr;
  int64_t out_stride = 0;
  void* scratch = nullptr;  // kScratchBytes, aligned to 64
};
inline namespace BATON_ISA_NAMESPACE {
inline int64_t XRow(const MatMulArgs& a, int32_t r) {
  return a.x_rows != nullptr ? a.x_rows[r] : r;
}
inline float* OutRow(const MatMulArgs& a, int32_t r) {
  return a.out + (a.out_rows != nullptr ? a.out_rows[r] : r) * a.out_stride;
}
}  // namespace BATON_ISA_NAMESPACE

// A query of attention and where its part of the answer goes.
struct AttentionQuery {
  const float* q = nullptr;  // [key_dim]
  int32_t position = 0;
  float alibi_slope = 0;
  float* partial = nullptr;  // [value_dim + 2]: sums of weighted values, then the maximum score and
                             // the sum of weights
};
// One KV head, one chunk of positions, some queries.
struct AttentionTask {
  KvType format = KvType::kF16;
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  bool value_in_key = false;
  float scale = 0;
  float softcap = 0;   // 0: none
  int32_t window = 0;  // 0: none
  int32_t chunk_begin = 0;
  int32_t num_blocks = 0;  // of this chunk that hold positions any query sees
  // The head's part of each block: keys [key_dim, 32], then values [32, value_dim] unless
  // value_in_key.
  const uint8_t* const* blocks = nullptr;
  int32_t num_queries = 0;  // at most kMaxTaskQueries
  const AttentionQuery* queries = nullptr;
  float* scratch = nullptr;  // AttentionScratchFloats, aligned to 64
};
// Groups of 32 numbers of a vector in a kQ8_0 cache, each with a scale (a half). A block holds the
// keys' int8 [key_dim, 32], their scales [groups, 32], then the values' int8 [32, value_dim] and
// scales [32, groups].
constexpr int32_t KvGroups(int32_t dim) { return (dim + 31) / 32; }
constexpr int64_t AttentionScratchFloats(int32_t key_dim, int32_t value_dim) {
  return int64_t{kMaxTaskQueries} * kAttentionChunk + int64_t{kKvBlock} * (key_dim + value_dim);
}

// Tables of them are filled by this list, so that none forgets one.
#define BATON_FOR_EACH_UNARY_OP(Do) \
  Do(kSilu) Do(kGeluTanh) Do(kGeluErf) Do(kGeluQuick) Do(kRelu) Do(kReluSquared)

#define BATON_NAME(op) op,
enum class UnaryOp : uint8_t { BATON_FOR_EACH_UNARY_OP(BATON_NAME) };
#undef BATON_NAME
inline constexpr int kNumUnaryOps = 6;

struct KernelSet {
  const char* name = nullptr;

  // Rounds one row for a format: values, scales and sums of row 0 of `out`. left_over: what
  // rounding leaves over, [cols], or null.
  void (*round[4])(const float* x, int32_t cols, const RoundedRows& out,
                   float* left_over) = {};  // by ActivationFormat
  void (*matmul[kNumQuantTypes])(const MatMulArgs& args) = {};
  void (*unpack_row[kNumQuantTypes])(const void* blocks, int32_t cols, float* out) = {};

  // out = norm(x) * weight + bias; weight and bias may be null, out may be x.
  void (*rms_norm)(const float* x, int32_t n, float eps, const float* weight, const float* bias,
                   float* out) = nullptr;
  void (*layer_norm)(const float* x, int32_t n, float eps, const float* weight, const float* bias,
                     float* out) = nullptr;
  void (*add_scaled)(const float* a, const float* b, float scale, int32_t n,
                     float* out) = nullptr;  // a + scale * b
  void (*scale)(float factor, int32_t n, float* x) = nullptr;
  void (*soft_cap)(float cap, int32_t n, float* x) = nullptr;
  void (*clamp)(float limit, int32_t n, float* x) = nullptr;
  void (*unary[kNumUnaryOps])(int32_t n, float* x) = {};
  void (*gated[kNumUnaryOps])(const float* gate, const float* up, int32_t n,
                              float* out) = {};  // f(gate) * up
  void (*gated_swiglu_clamped)(const float* gate, const float* up, float limit, int32_t n,
                               float* out) = nullptr;
  // Rotates pairs (x[i], x[i + half]) or (x[2i], x[2i + 1]); cos and sin [half].
  void (*rope_halves)(const float* cos, const float* sin, int32_t half, float* x) = nullptr;
  void (*rope_interleaved)(const float* cos, const float* sin, int32_t half, float* x) = nullptr;

  void (*attend)(const AttentionTask& task) = nullptr;
  // Adds `other`, the next chunk's partial answer, to `partial`.
  void (*merge_partials)(float* partial, const float* other, int32_t value_dim) = nullptr;
  // out = the answer of all chunks; `sink`: one more score without a value, or null.
  void (*finish_attention)(const float* partial, const float* sink, int32_t value_dim,
                           float* out) = nullptr;

  // Multiplies registers of 8-bit integers by each other and adds up, `rounds` times; returns the
  // operations done, a multiply-add being two. The bound of every integer product of the set.
  int64_t (*multiply_registers)(int64_t rounds) = nullptr;
};

// Entries of `over` where it has them, else those of `base`.
KernelSet Overlay(const KernelSet& base, const KernelSet& over);

// The sets, in rising order of preference; functions that fill in what they have. Linked only for
// their architecture.
void FillScalar(KernelSet& set);
void FillAvx2(KernelSet& set);
void FillAvxVnni(KernelSet& set);
void FillAvx512(KernelSet& set);
void FillAmx(KernelSet& set);
void FillNeon(KernelSet& set);

}  // namespace baton::kernels
