// What sampling needs of rows of logits, so that the rows stay on the device: their best, sorted,
// and the sum of their weights.
//
// A logit and its id make a key of 64 bits that sorts as candidates do. Each pass sorts what fits
// into shared memory and keeps the best of it, until one part is left: which parts there are is
// nobody's business.
#include "kernels/cuda/parts.cuh"
#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

constexpr int kSortThreads = 256;
constexpr int kSortedAtOnce = kCudaSortedAtOnce;
static_assert(kMostCudaBest * 2 <= kSortedAtOnce, "a pass leaves fewer");

constexpr float kInfinity = __builtin_inff();
constexpr uint64_t kBroken = ~uint64_t{0};  // NaN or +infinity: comes out first
constexpr uint64_t kNoKey = 0;              // -infinity: no candidate

// Larger is better; of equal logits, that of the lower id.
__device__ inline uint64_t KeyOf(float logit, int32_t id) {
  if (!(logit < kInfinity)) return kBroken;
  if (logit == -kInfinity) return kNoKey;
  const uint32_t bits = BitsOf(logit + 0.0f);  // -0 and 0 are equal
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | ~static_cast<uint32_t>(id);
}
__device__ inline int32_t IdOf(uint64_t key) {
  return static_cast<int32_t>(~static_cast<uint32_t>(key));
}

// Where a pass has its keys from: the logits, or the pass before.
struct LogitKeys {
  CudaMatrix logits;
  __device__ uint64_t operator()(int64_t row, int32_t i) const {
    return KeyOf(logits.data[row * logits.stride + i], i);
  }
};
struct KeptKeys {
  const uint64_t* keys;
  int32_t count;  // of a row
  __device__ uint64_t operator()(int64_t row, int32_t i) const { return keys[row * count + i]; }
};

// Best first. `count` is a power of two. Batcher's bitonic sort: each step's exchanges are
// independent.
__device__ inline void SortKeys(uint64_t* keys, int32_t count) {
  for (int32_t size = 2; size <= count; size *= 2) {
    for (int32_t stride = size / 2; stride > 0; stride /= 2) {
      for (auto pair = static_cast<int32_t>(threadIdx.x); pair < count / 2; pair += kSortThreads) {
        const int32_t low = pair / stride * stride * 2 + pair % stride, high = low + stride;
        const uint64_t a = keys[low], b = keys[high];
        if ((low & size) == 0 ? a < b : a > b) {
          keys[low] = b;
          keys[high] = a;
        }
      }
      __syncthreads();
    }
  }
}

// grid: [parts, rows]. Of each part of `count` keys a row, the `kept` best, best first.
template <class Keys>
__global__ void __launch_bounds__(kSortThreads)
    KeepBest(Keys from, int32_t count, int32_t kept, uint64_t* to) {
  __shared__ uint64_t keys[kSortedAtOnce];
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kSortedAtOnce;
  const int32_t here = count - first < kSortedAtOnce ? count - first : kSortedAtOnce;
  int32_t padded = 1;
  while (padded < here) padded *= 2;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < padded; i += kSortThreads)
    keys[i] = i < here ? from(blockIdx.y, first + i) : kNoKey;
  __syncthreads();
  SortKeys(keys, padded);
  uint64_t* out = to + (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * kept;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kept; i += kSortThreads)
    out[i] = i < padded ? keys[i] : kNoKey;
}

// grid: [rows]. The sum of all weights beside the best logit, by a thread for each of kWeightSums.
__global__ void __launch_bounds__(kWeightSums)
    SumWeights(CudaMatrix logits, const uint64_t* best, int32_t kept, CudaMatrix out) {
  __shared__ double sums[kWeightSums];
  const uint64_t key = best[int64_t{blockIdx.x} * kept];
  if (key == kBroken || key == kNoKey) return;  // all threads alike
  const float* row = logits.data + int64_t{blockIdx.x} * logits.stride;
  const float max = row[IdOf(key)];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  double sum = 0;
  for (int32_t i = thread; i < logits.cols; i += kWeightSums) sum += WeightOfDistance(row[i] - max);
  sums[thread] = sum;
  __syncthreads();
  for (int32_t half = kWeightSums / 2; half > 0; half /= 2) {
    if (thread < half) sums[thread] += sums[thread + half];
    __syncthreads();
  }
  if (thread == 0) CudaSummaryOf(out, static_cast<int32_t>(blockIdx.x)).head->weight_sum = sums[0];
}

// grid: [rows].
__global__ void __launch_bounds__(kSortThreads)
    WriteSummary(CudaSummaryArgs a, const uint64_t* best, int32_t kept) {
  const int64_t row = blockIdx.x;
  const float* logits = a.logits.data + row * a.logits.stride;
  const CudaSummary out = CudaSummaryOf(a.out, static_cast<int32_t>(row));
  const uint64_t* keys = best + row * kept;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (keys[0] == kBroken || keys[0] == kNoKey) {
    if (thread == 0) out.head->found = keys[0] == kBroken ? -1 : 0;
  } else {
    for (int32_t i = thread; i < kept && keys[i] != kNoKey; i += kSortThreads) {
      out.best[i] = {IdOf(keys[i]), logits[IdOf(keys[i])]};
      if (i + 1 == kept || keys[i + 1] == kNoKey) out.head->found = i + 1;
    }
  }
  auto* asked = reinterpret_cast<float*>(out.best + kept);
  for (int32_t i = thread; i < a.num_asked; i += kSortThreads)
    asked[i] = logits[a.asked[row * a.num_asked + i]];
}

void Summarize(const CudaSummaryArgs& a, CudaStream stream) {
  const int32_t rows = a.logits.rows, kept = a.count;
  uint64_t* const halves[2] = {a.keys, a.keys + CudaSummaryKeys(rows, a.logits.cols, kept) / 2};
  unsigned parts = CeilDiv(a.logits.cols, kSortedAtOnce);
  const auto grid = [&] { return dim3(parts, static_cast<unsigned>(rows)); };
  BATON_LAUNCH(KeepBest<LogitKeys>, grid(), dim3(kSortThreads), 0, stream, LogitKeys{a.logits},
               a.logits.cols, kept, halves[0]);
  int turn = 0;
  for (; parts > 1; turn ^= 1) {
    const auto count = static_cast<int32_t>(parts) * kept;
    const KeptKeys from = {halves[turn], count};
    parts = CeilDiv(count, kSortedAtOnce);
    BATON_LAUNCH(KeepBest<KeptKeys>, grid(), dim3(kSortThreads), 0, stream, from, count, kept,
                 halves[turn ^ 1]);
  }
  const dim3 row_blocks(static_cast<unsigned>(rows));
  BATON_LAUNCH(WriteSummary, row_blocks, dim3(kSortThreads), 0, stream, a, halves[turn], kept);
  if (!a.weight_sums) return;
  BATON_LAUNCH(SumWeights, row_blocks, dim3(kWeightSums), 0, stream, a.logits, halves[turn], kept,
               a.out);
}

}  // namespace

void FillCudaLogits(CudaApi& api) { api.summarize_logits = Summarize; }

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
