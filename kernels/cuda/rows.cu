// Operations over rows of floats: embedding, norms, activations, rotation. Everything element by
// element is one kernel with a function object; norms have eight sums, each added up in order by a
// lane.
#include "kernels/cuda/device_blocks.cuh"
#include "kernels/cuda/parts.cuh"
#include "kernels/element_ops.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

// ---- element by element -------------------------------------------------------------------------

constexpr int kElementThreads = 256;

__device__ inline float& At(const CudaMatrix& m, int64_t row, int32_t col) {
  return m.data[row * m.stride + col];
}

template <class F>
__global__ void ForEachElement(int64_t count, uint32_t cols, F f) {
  const int64_t i = int64_t{blockIdx.x} * kElementThreads + threadIdx.x;
  if (i >= count) return;
  const auto row = static_cast<uint32_t>(i) / cols;  // fewer than 2^32 elements
  f(row, static_cast<int32_t>(static_cast<uint32_t>(i) - row * cols));
}
template <class F>
void ForElements(int64_t rows, int32_t cols, const F& f, CudaStream stream) {
  const int64_t count = rows * cols;
  if (count == 0) return;
  BATON_LAUNCH(ForEachElement<F>, dim3(CeilDiv(count, kElementThreads)), dim3(kElementThreads), 0,
               stream, count, static_cast<uint32_t>(cols), f);
}

struct CopyElement {
  CudaMatrix from, to;
  __device__ void operator()(int64_t r, int32_t c) const { At(to, r, c) = At(from, r, c); }
};
struct AddElement {
  CudaMatrix a, b, out;
  float scale;
  __device__ void operator()(int64_t r, int32_t c) const {
    At(out, r, c) = Fma(scale, At(b, r, c), At(a, r, c));
  }
};
struct AddBiasElement {
  CudaMatrix x;
  const float* bias;
  __device__ void operator()(int64_t r, int32_t c) const { At(x, r, c) += bias[c]; }
};
struct ScaleElement {
  CudaMatrix x;
  float factor;
  __device__ void operator()(int64_t r, int32_t c) const { At(x, r, c) *= factor; }
};
struct SoftCapElement {
  CudaMatrix x;
  float cap;
  __device__ void operator()(int64_t r, int32_t c) const {
    At(x, r, c) = SoftCapped(At(x, r, c), cap);
  }
};
struct ClampElement {
  CudaMatrix x;
  float limit;
  __device__ void operator()(int64_t r, int32_t c) const {
    At(x, r, c) = MaxOf(-limit, MinOf(limit, At(x, r, c)));
  }
};
template <UnaryOp Op>
struct UnaryElement {
  CudaMatrix x;
  __device__ void operator()(int64_t r, int32_t c) const { At(x, r, c) = Unary<Op>(At(x, r, c)); }
};
template <UnaryOp Op>
struct GatedElement {
  CudaMatrix gate, up, out;
  __device__ void operator()(int64_t r, int32_t c) const {
    At(out, r, c) = Unary<Op>(At(gate, r, c)) * At(up, r, c);
  }
};
struct SwigluClampedElement {
  CudaMatrix gate, up, out;
  float limit;
  __device__ void operator()(int64_t r, int32_t c) const {
    At(out, r, c) = SwigluClamped(At(gate, r, c), At(up, r, c), limit);
  }
};
struct FinePartsElement {
  CudaMatrix parts, out;
  const float* bias;
  __device__ void operator()(int64_t r, int32_t c) const {
    const float sum = At(parts, r, c) + At(parts, out.rows + r, c);
    At(out, r, c) = bias != nullptr ? sum + bias[c] : sum;
  }
};

void Copy(CudaMatrix from, CudaMatrix to, CudaStream stream) {
  ForElements(from.rows, from.cols, CopyElement{from, to}, stream);
}
void AddScaled(CudaMatrix a, CudaMatrix b, float scale, CudaMatrix out, CudaStream stream) {
  ForElements(a.rows, a.cols, AddElement{a, b, out, scale}, stream);
}
void AddBias(CudaMatrix x, const float* bias, CudaStream stream) {
  ForElements(x.rows, x.cols, AddBiasElement{x, bias}, stream);
}
void ScaleBy(CudaMatrix x, float factor, CudaStream stream) {
  ForElements(x.rows, x.cols, ScaleElement{x, factor}, stream);
}
void SoftCap(CudaMatrix x, float cap, CudaStream stream) {
  ForElements(x.rows, x.cols, SoftCapElement{x, cap}, stream);
}
void Clamp(CudaMatrix x, float limit, CudaStream stream) {
  ForElements(x.rows, x.cols, ClampElement{x, limit}, stream);
}
template <UnaryOp Op>
void UnaryRows(CudaMatrix x, CudaStream stream) {
  ForElements(x.rows, x.cols, UnaryElement<Op>{x}, stream);
}
template <UnaryOp Op>
void GatedRows(CudaMatrix gate, CudaMatrix up, CudaMatrix out, CudaStream stream) {
  ForElements(gate.rows, gate.cols, GatedElement<Op>{gate, up, out}, stream);
}
void GatedSwigluClamped(CudaMatrix gate, CudaMatrix up, float limit, CudaMatrix out,
                        CudaStream stream) {
  ForElements(gate.rows, gate.cols, SwigluClampedElement{gate, up, out, limit}, stream);
}
void AddFineParts(CudaMatrix parts, const float* bias, CudaMatrix out, CudaStream stream) {
  ForElements(out.rows, out.cols, FinePartsElement{parts, out, bias}, stream);
}

// ---- embedding ----------------------------------------------------------------------------------

// A thread unpacks a span: Unpack's values, by the same steps.
template <class Block>
struct EmbedSpan {
  const uint8_t* table;
  int64_t row_bytes;
  const int32_t* ids;
  CudaMatrix out;

  __device__ void operator()(int64_t r, int32_t span_of_row) const {
    constexpr int kSpans = kValues<Block> / kSpan;
    const DeviceRow<Block> row(table + ids[r] * row_bytes, out.cols / kValues<Block>);
    const DeviceBlock<Block> block = row[span_of_row / kSpans];
    const int span = span_of_row % kSpans;
    const SpanWords words = Words(block, span);
    const float scale = BlockScale(block), min = BlockMin(block);
    SubScales sub = {};
    if constexpr (kSpans > 1) sub = SubScalesOf(block, span);
    float* to = &At(out, r, span_of_row * kSpan);
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
      const int8_t byte = static_cast<int8_t>(words.w[i / 4] >> (8 * (i % 4)));
      const float q = static_cast<float>(byte - kOffset<Block>);
      float value;
      if constexpr (kSpans == 1) {
        value = scale * q;
        if constexpr (HasMin<Block>) value = value + min;
      } else {
        value = scale * static_cast<float>(sub.scale[i / 16]) * q;
        if constexpr (HasMin<Block>) value = value - min * static_cast<float>(sub.min[i / 16]);
      }
      to[i] = value;
    }
  }
};
template <class Block>
struct EmbedValue {
  const uint8_t* table;
  int64_t row_bytes;
  const int32_t* ids;
  CudaMatrix out;

  __device__ void operator()(int64_t r, int32_t c) const {
    const auto* row = reinterpret_cast<const Block*>(table + ids[r] * row_bytes);
    At(out, r, c) = Unpack(row[c], 0);
  }
};

void Embed(QuantType type, const uint8_t* table, int64_t row_bytes, const int32_t* ids,
           CudaMatrix out, CudaStream stream) {
  switch (type) {
#define BATON_CASE(Block)                                                                        \
  case Block::kType:                                                                             \
    return ForElements(out.rows, out.cols / kSpan, EmbedSpan<Block>{table, row_bytes, ids, out}, \
                       stream);
    BATON_FOR_EACH_BLOCK32(BATON_CASE)
    BATON_FOR_EACH_SUPER_BLOCK(BATON_CASE)
#undef BATON_CASE
#define BATON_CASE(Block) \
  case Block::kType:      \
    return ForElements(out.rows, out.cols, EmbedValue<Block>{table, row_bytes, ids, out}, stream);
    BATON_FOR_EACH_FLOAT_BLOCK(BATON_CASE)
#undef BATON_CASE
    default:
      return;
  }
}

// ---- norms --------------------------------------------------------------------------------------

constexpr int kNormChunk = 2048;  // values in shared memory at a time

// Adds the values of a row, or their squares, in the order of ARITHMETIC.md: lanes 0 to 7 have a
// sum each. All threads get the result.
template <bool Squares>
__device__ inline float SumRow(const float* x, int32_t n, float shift) {
  __shared__ float chunk[kNormChunk];
  __shared__ float result;
  float sum = 0;
  for (int32_t first = 0; first < n; first += kNormChunk) {
    const int32_t count = n - first < kNormChunk ? n - first : kNormChunk;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count;
         i += static_cast<int32_t>(blockDim.x)) {
      chunk[i] = x[first + i] - shift;
    }
    __syncthreads();
    if (threadIdx.x < 8) {
#pragma unroll 8
      for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += 8) {
        sum = Squares ? Fma(chunk[i], chunk[i], sum) : sum + chunk[i];
      }
    }
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    sum = SumOfEight(sum);
    if (threadIdx.x == 0) result = sum;
  }
  __syncthreads();
  const float all = result;
  __syncthreads();  // before another sum writes it
  return all;
}

template <bool Layer>
__global__ void NormRow(float eps, CudaMatrix x, const float* weight, const float* bias,
                        CudaMatrix out) {
  const float* from = x.data + int64_t{blockIdx.x} * x.stride;
  float* to = out.data + int64_t{blockIdx.x} * out.stride;
  const auto n = static_cast<float>(x.cols);
  const float mean = Layer ? SumRow<false>(from, x.cols, 0) / n : 0.0f;
  const float square = SumRow<true>(from, x.cols, mean) / n;
  const float inverse = 1.0f / __builtin_sqrtf(square + eps);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < x.cols;
       i += static_cast<int32_t>(blockDim.x)) {
    float v = (from[i] - mean) * inverse;
    if (weight != nullptr) v = v * weight[i];
    if (bias != nullptr) v = v + bias[i];
    to[i] = v;
  }
}
template <bool Layer>
void Norm(float eps, CudaMatrix x, const float* weight, const float* bias, CudaMatrix out,
          CudaStream stream) {
  if (x.rows == 0) return;
  const unsigned threads = x.cols <= 256 ? 32 : 256;
  BATON_LAUNCH(NormRow<Layer>, dim3(static_cast<unsigned>(x.rows)), dim3(threads), 0, stream, eps,
               x, weight, bias, out);
}

// ---- rotation -----------------------------------------------------------------------------------

struct RopeTableElement {
  const int32_t* positions;
  const float* inv_freq;
  int32_t half;
  float magnitude;
  float* cos_sin;

  __device__ void operator()(int64_t r, int32_t i) const {
    const double angle = static_cast<double>(positions[r]) * static_cast<double>(inv_freq[i]);
    const SinCosResult s = SinCos(angle);
    float* row = cos_sin + r * 2 * half;
    row[i] = static_cast<float>(s.cos * static_cast<double>(magnitude));
    row[half + i] = static_cast<float>(s.sin * static_cast<double>(magnitude));
  }
};
template <bool Halves>
struct RotateElement {
  const float* cos_sin;
  int32_t half, head_dim, offset;
  CudaMatrix x;

  __device__ void operator()(int64_t r, int32_t pair) const {
    const int32_t head = pair / half, i = pair % half;
    const float* row = cos_sin + r * 2 * half;
    float* v = &At(x, r, head * head_dim + offset);
    RotatePair(row[i], row[half + i], v[Halves ? i : 2 * i], v[Halves ? i + half : 2 * i + 1]);
  }
};

void RopeTable(const int32_t* positions, int32_t rows, const float* inv_freq, int32_t half,
               float magnitude, float* cos_sin, CudaStream stream) {
  ForElements(rows, half, RopeTableElement{positions, inv_freq, half, magnitude, cos_sin}, stream);
}
template <bool Halves>
void Rope(const float* cos_sin, int32_t half, int32_t head_dim, int32_t offset, CudaMatrix x,
          CudaStream stream) {
  ForElements(x.rows, x.cols / head_dim * half,
              RotateElement<Halves>{cos_sin, half, head_dim, offset, x}, stream);
}

}  // namespace

void FillCudaRows(CudaApi& api) {
  api.embed = Embed;
  api.rms_norm = Norm<false>;
  api.layer_norm = Norm<true>;
  api.copy = Copy;
  api.add_scaled = AddScaled;
  api.add_bias = AddBias;
  api.scale = ScaleBy;
  api.soft_cap = SoftCap;
  api.clamp = Clamp;
#define BATON_FILL_UNARY(op)                                         \
  api.unary[static_cast<int>(UnaryOp::op)] = UnaryRows<UnaryOp::op>; \
  api.gated[static_cast<int>(UnaryOp::op)] = GatedRows<UnaryOp::op>;
  BATON_FOR_EACH_UNARY_OP(BATON_FILL_UNARY)
#undef BATON_FILL_UNARY
  api.gated_swiglu_clamped = GatedSwigluClamped;
  api.add_fine_parts = AddFineParts;
  api.rope_table = RopeTable;
  api.rope_halves = Rope<true>;
  api.rope_interleaved = Rope<false>;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
