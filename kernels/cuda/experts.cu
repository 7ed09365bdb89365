// Mixture of experts (ARITHMETIC.md, "Experts"): who goes where, and the weighted sum of what comes
// back. A warp routes a row; sums over experts are one lane's, in order.
#include "kernels/cuda/parts.cuh"
#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

constexpr float kOut = -__builtin_inff();

// Index of the largest value that is not taken; equal ones: the lowest. For all lanes of a warp.
__device__ inline int LargestLeft(const float* values, const bool* taken, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float best = kOut;
  int index = -1;
  for (int i = lane; i < count; i += 32) {
    if (taken[i] || (index >= 0 && !(values[i] > best))) continue;
    best = values[i];
    index = i;
  }
  for (int d = 16; d > 0; d /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, best, d);
    const int other_index = __shfl_xor_sync(kAllLanes, index, d);
    if (other_index < 0) continue;
    if (index < 0 || other > best || (other == best && other_index < index)) {
      best = other;
      index = other_index;
    }
  }
  return index;
}

struct RouterRow {
  float scores[kMaxCudaExperts];
  float selection[kMaxCudaExperts];
  bool taken[kMaxCudaExperts];
  float group_worth[kMaxCudaExpertGroups];
  bool group_taken[kMaxCudaExpertGroups];
};

// Softmax of `count` values by one thread, in order.
__device__ inline void SoftmaxInOrder(float* values, int count) {
  float max = values[0];
  for (int i = 1; i < count; ++i) max = values[i] > max ? values[i] : max;
  float sum = 0;
  for (int i = 0; i < count; ++i) {
    values[i] = Exp(values[i] - max);
    sum += values[i];
  }
  for (int i = 0; i < count; ++i) values[i] /= sum;
}

// The same by a warp: the sum is still one lane's.
__device__ inline void SoftmaxOfWarp(float* values, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float max = kOut;
  for (int i = lane; i < count; i += 32) max = MaxOf(max, values[i]);
  for (int d = 16; d > 0; d /= 2) max = MaxOf(max, __shfl_xor_sync(kAllLanes, max, d));
  for (int i = lane; i < count; i += 32) values[i] = Exp(values[i] - max);
  __syncwarp();
  float sum = 0;
  if (lane == 0) {
    for (int i = 0; i < count; ++i) sum += values[i];
  }
  sum = __shfl_sync(kAllLanes, sum, 0);
  for (int i = lane; i < count; i += 32) values[i] /= sum;
  __syncwarp();
}

// Experts outside the best groups are out of the choice. A group is worth the sum of its two best.
__device__ inline void KeepBestGroups(const CudaRouteArgs& a, RouterRow& row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int size = a.logits.cols / a.num_groups;
  for (int g = lane; g < a.num_groups; g += 32) {
    float first = kOut, second = kOut;
    for (int i = g * size; i < (g + 1) * size; ++i) {
      const float v = row.selection[i];
      if (v > first) {
        second = first;
        first = v;
      } else if (v > second) {
        second = v;
      }
    }
    row.group_worth[g] = size > 1 ? first + second : first;
    row.group_taken[g] = false;
  }
  __syncwarp();
  for (int i = 0; i < a.num_used_groups; ++i) {
    const int g = LargestLeft(row.group_worth, row.group_taken, a.num_groups);
    __syncwarp();
    if (lane == 0) row.group_taken[g] = true;
    __syncwarp();
  }
  for (int i = lane; i < a.logits.cols; i += 32) {
    if (!row.group_taken[i / size]) row.selection[i] = kOut;
  }
  __syncwarp();
}

__global__ void RouteRow(CudaRouteArgs a) {
  __shared__ RouterRow row;
  const int lane = static_cast<int>(threadIdx.x);
  const int experts = a.logits.cols;
  const float* logits = a.logits.data + int64_t{blockIdx.x} * a.logits.stride;
  for (int i = lane; i < experts; i += 32) {
    row.scores[i] = a.score == CudaRouterScore::kSigmoid ? Sigmoid(logits[i]) : logits[i];
    row.taken[i] = false;
  }
  __syncwarp();
  if (a.score == CudaRouterScore::kSoftmax) SoftmaxOfWarp(row.scores, experts);
  for (int i = lane; i < experts; i += 32) {
    row.selection[i] =
        a.selection_bias != nullptr ? row.scores[i] + a.selection_bias[i] : row.scores[i];
  }
  __syncwarp();
  if (a.num_groups > 1) KeepBestGroups(a, row);

  int32_t* chosen = a.experts + int64_t{blockIdx.x} * a.num_used;
  float* weights = a.weights + int64_t{blockIdx.x} * a.num_used;
  for (int i = 0; i < a.num_used; ++i) {
    const int e = LargestLeft(row.selection, row.taken, experts);
    __syncwarp();
    if (lane == 0) {
      row.taken[e] = true;
      chosen[i] = e;
      weights[i] = row.scores[e];
    }
    __syncwarp();
  }
  if (lane != 0) return;
  if (a.score == CudaRouterScore::kSoftmaxOfChosen) SoftmaxInOrder(weights, a.num_used);
  if (a.normalize) {
    float sum = 0;
    for (int i = 0; i < a.num_used; ++i) sum += weights[i];
    sum = sum < 6.103515625e-5f ? 6.103515625e-5f : sum;  // the smallest normal half
    for (int i = 0; i < a.num_used; ++i) weights[i] /= sum;
  }
  for (int i = 0; i < a.num_used; ++i) weights[i] *= a.scale;
}

void Route(const CudaRouteArgs& args, CudaStream stream) {
  if (args.logits.rows == 0) return;
  BATON_LAUNCH(RouteRow, dim3(static_cast<unsigned>(args.logits.rows)), dim3(32), 0, stream, args);
}

// One block: a thread an expert goes through the slots, twice.
__global__ void GroupSlots(CudaGroupArgs a) {
  __shared__ int32_t counts[kMaxCudaExperts];
  const auto step = static_cast<int>(blockDim.x);
  for (int e = static_cast<int>(threadIdx.x); e < a.num_experts; e += step) {
    int32_t count = 0;
    for (int32_t s = 0; s < a.slots; ++s) count += a.experts[s] == e;
    counts[e] = count;
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < a.num_experts; e += step) {
    int32_t at = 0;
    for (int i = 0; i < e; ++i) at += counts[i];
    a.slice_begin[e] = at;
    if (e == a.num_experts - 1) a.slice_begin[a.num_experts] = at + counts[e];
    for (int32_t s = 0; s < a.slots; ++s) {
      if (a.experts[s] != e) continue;
      a.x_rows[at] = s / a.slots_per_row;
      a.out_rows[at++] = s;
    }
  }
}
void Group(const CudaGroupArgs& args, CudaStream stream) {
  BATON_LAUNCH(GroupSlots, dim3(1), dim3(256), 0, stream, args);
}

__global__ void SumOfSlots(const float* weights, int32_t num_used, CudaMatrix x, CudaMatrix out) {
  const auto col = static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x);
  if (col >= out.cols) return;
  const int64_t row = blockIdx.x;
  float sum = 0;
  for (int32_t slot = 0; slot < num_used; ++slot) {
    const int64_t from = row * num_used + slot;
    sum = Fma(weights[from], x.data[from * x.stride + col], sum);
  }
  out.data[row * out.stride + col] = sum;
}
void ExpertSum(const float* weights, int32_t num_used, CudaMatrix x, CudaMatrix out,
               CudaStream stream) {
  if (out.rows == 0) return;
  BATON_LAUNCH(SumOfSlots, dim3(static_cast<unsigned>(out.rows), CeilDiv(out.cols, 256)), dim3(256),
               0, stream, weights, num_used, x, out);
}

}  // namespace

void FillCudaExperts(CudaApi& api) {
  api.route = Route;
  api.group_slots = Group;
  api.expert_sum = ExpertSum;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
