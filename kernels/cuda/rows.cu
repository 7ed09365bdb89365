// Operations over rows of floats: embedding, norms, activations, rotation. Everything element by
// element is one kernel with a function object; norms have eight sums, each added up in order by a
// lane. What products take can be rounded for them in the kernel that makes it.
#include "kernels/cuda/device_blocks.cuh"
#include "kernels/cuda/rounding.cuh"
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

void Copy(CudaMatrix from, CudaMatrix to, CudaStream stream) {
  ForElements(from.rows, from.cols, CopyElement{from, to}, stream);
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

// ---- the same, rounded by the way ---------------------------------------------------------------

// f(row, column) makes an element, keeps it where it belongs and returns it.
template <int Group, class F>
__global__ void RoundElements(int32_t rows, int32_t cols, F f, CudaRounding to) {
  const int32_t groups = cols / Group;
  const int64_t item = int64_t{blockIdx.x} * (kElementThreads / 32) + threadIdx.x / 32;
  if (item >= int64_t{rows} * groups) return;
  const int64_t row = item / groups;
  RoundValues<Group>(to, row, cols, static_cast<int32_t>(item % groups),
                     [&](int32_t k) { return f(row, k); });
}
template <int Group, class F>
void LaunchRoundElements(int32_t rows, int32_t cols, const F& f, const CudaRounding& to,
                         CudaStream stream) {
  if (rows == 0) return;
  const dim3 grid(CeilDiv(int64_t{rows} * (cols / Group), kElementThreads / 32));
  BATON_LAUNCH((RoundElements<Group, F>), grid, dim3(kElementThreads), 0, stream, rows, cols, f,
               to);
}
template <class F>
void ForRoundedElements(int32_t rows, int32_t cols, const F& f, const CudaRounding& to,
                        CudaStream stream) {
  switch (ActivationGroup(to.format)) {
    case 32:
      return LaunchRoundElements<32>(rows, cols, f, to, stream);
    case 256:
      return LaunchRoundElements<256>(rows, cols, f, to, stream);
    default:
      return ForElements(rows, cols, f, stream);
  }
}

struct LoadElement {
  CudaMatrix x;
  __device__ float operator()(int64_t r, int32_t c) const { return At(x, r, c); }
};
struct AddElement {
  CudaAddArgs a;
  __device__ float operator()(int64_t r, int32_t c) const {
    return At(a.out, r, c) = Fma(a.scale, At(a.b, r, c), At(a.a, r, c));
  }
};
struct ActivateElement {
  CudaActivateArgs a;
  __device__ float Activated(float x) const {
    switch (a.op) {
#define BATON_CASE(op) \
  case UnaryOp::op:    \
    return Unary<UnaryOp::op>(x);
      BATON_FOR_EACH_UNARY_OP(BATON_CASE)
#undef BATON_CASE
    }
    return x;
  }
  __device__ float operator()(int64_t r, int32_t c) const {
    const float gate = At(a.gate, r, c);
    float v;
    if (a.up.data == nullptr) {
      v = Activated(gate);
    } else if (a.clamped) {
      v = SwigluClamped(gate, At(a.up, r, c), a.limit);
    } else {
      v = Activated(gate) * At(a.up, r, c);
    }
    return At(a.out, r, c) = v;
  }
};

void Round(const CudaMatrix& x, const CudaRounding& to, CudaStream stream) {
  ForRoundedElements(x.rows, x.cols, LoadElement{x}, to, stream);
}
void Add(const CudaAddArgs& a, const CudaRounding& to, CudaStream stream) {
  ForRoundedElements(a.out.rows, a.out.cols, AddElement{a}, to, stream);
}
void Activate(const CudaActivateArgs& a, const CudaRounding& to, CudaStream stream) {
  ForRoundedElements(a.out.rows, a.out.cols, ActivateElement{a}, to, stream);
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

// Adds the n values of a row, or their squares, in the order of ARITHMETIC.md: lanes 0 to 7 have a
// sum each. value(i) is called once for each. All threads get the result.
template <bool Squares, class Value>
__device__ inline float SumRow(int32_t n, const Value& value) {
  __shared__ float chunk[kNormChunk];
  __shared__ float result;
  float sum = 0;
  for (int32_t first = 0; first < n; first += kNormChunk) {
    const int32_t count = n - first < kNormChunk ? n - first : kNormChunk;
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count;
         i += static_cast<int32_t>(blockDim.x)) {
      chunk[i] = value(first + i);
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

constexpr int kNormThreads = 256;

// Group 0: not rounded.
template <bool Layer, int Group>
__global__ void __launch_bounds__(kNormThreads) NormRow(CudaNormArgs a, CudaRounding rounding) {
  const int64_t row = blockIdx.x;
  const int32_t cols = a.x.cols;
  float* x = &At(a.x, row, 0);
  float* out = &At(a.out, row, 0);
  const bool sums = a.sum.out.data != nullptr;
  const auto input = [&](int32_t i) {
    if (sums) x[i] = Fma(a.sum.scale, At(a.sum.b, row, i), At(a.sum.a, row, i));
    return x[i];
  };
  const auto n = static_cast<float>(cols);
  float mean = 0, square;
  if constexpr (Layer) {
    mean = SumRow<false>(cols, input) / n;
    square = SumRow<true>(cols, [&](int32_t i) { return x[i] - mean; }) / n;
  } else {
    square = SumRow<true>(cols, input) / n;
  }
  const float inverse = 1.0f / __builtin_sqrtf(square + a.eps);
  const auto normed = [&](int32_t i) {
    float v = (x[i] - mean) * inverse;
    if (a.weight != nullptr) v = v * a.weight[i];
    if (a.bias != nullptr) v = v + a.bias[i];
    return out[i] = v;
  };
  const auto threads = static_cast<int32_t>(blockDim.x), thread = static_cast<int32_t>(threadIdx.x);
  if constexpr (Group == 0) {
    for (int32_t i = thread; i < cols; i += threads) normed(i);
  } else {
    for (int32_t at = thread / 32; at < cols / Group; at += threads / 32) {
      RoundValues<Group>(rounding, row, cols, at, normed);
    }
  }
}
template <bool Layer, int Group>
void LaunchNorm(const CudaNormArgs& a, const CudaRounding& rounding, CudaStream stream) {
  const unsigned threads = a.x.cols <= 256 ? 32 : kNormThreads;
  BATON_LAUNCH((NormRow<Layer, Group>), dim3(static_cast<unsigned>(a.x.rows)), dim3(threads), 0,
               stream, a, rounding);
}
template <bool Layer>
void NormOf(const CudaNormArgs& a, const CudaRounding& rounding, CudaStream stream) {
  switch (ActivationGroup(rounding.format)) {
    case 32:
      return LaunchNorm<Layer, 32>(a, rounding, stream);
    case 256:
      return LaunchNorm<Layer, 256>(a, rounding, stream);
    default:
      return LaunchNorm<Layer, 0>(a, rounding, stream);
  }
}
void Norm(const CudaNormArgs& args, const CudaRounding& rounding, CudaStream stream) {
  if (args.x.rows == 0) return;
  args.layer ? NormOf<true>(args, rounding, stream) : NormOf<false>(args, rounding, stream);
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
struct RotateElement {
  CudaRopeArgs a;

  __device__ void operator()(int64_t r, int32_t pair) const {
    const int32_t pairs_of_x = a.x.cols / a.head_dim * a.half;
    const bool of_x = pair < pairs_of_x;
    if (!of_x) pair -= pairs_of_x;
    const int32_t head = pair / a.half, i = pair % a.half;
    const float* row = a.cos_sin + r * 2 * a.half;
    float* v = &At(of_x ? a.x : a.more, r, head * a.head_dim + a.offset);
    RotatePair(row[i], row[a.half + i], v[a.halves ? i : 2 * i],
               v[a.halves ? i + a.half : 2 * i + 1]);
  }
};

void RopeTable(const int32_t* positions, int32_t rows, const float* inv_freq, int32_t half,
               float magnitude, float* cos_sin, CudaStream stream) {
  ForElements(rows, half, RopeTableElement{positions, inv_freq, half, magnitude, cos_sin}, stream);
}
void Rope(const CudaRopeArgs& a, CudaStream stream) {
  ForElements(a.x.rows, (a.x.cols + a.more.cols) / a.head_dim * a.half, RotateElement{a}, stream);
}

}  // namespace

void FillCudaRows(CudaApi& api) {
  api.embed = Embed;
  api.round = Round;
  api.add = Add;
  api.norm = Norm;
  api.activate = Activate;
  api.copy = Copy;
  api.add_bias = AddBias;
  api.scale = ScaleBy;
  api.soft_cap = SoftCap;
  api.clamp = Clamp;
  api.rope_table = RopeTable;
  api.rope = Rope;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
