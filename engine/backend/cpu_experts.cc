// Routing of a mixture of experts: which experts each row takes, and their weights (ARITHMETIC.md,
// "Experts").
#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/backend/cpu_backend.h"
#include "kernels/exact_math.h"

namespace baton::engine {
namespace {

// Ids of the `count` largest values, largest first; equal values: lowest id first.
void Largest(std::span<const float> values, int32_t count, std::vector<int32_t>& ids) {
  ids.resize(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](int32_t a, int32_t b) {
    return values[a] > values[b] || (values[a] == values[b] && a < b);
  });
  ids.resize(count);
}

void Softmax(std::span<float> values) {
  const float max = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& v : values) sum += v = kernels::Exp(v - max);
  for (float& v : values) v /= sum;
}

// Experts outside the best groups are out of the choice. A group is worth the sum of its two best
// experts.
void KeepBestGroups(const RouterParams& params, std::vector<float>& selection,
                    std::vector<int32_t>& ids) {
  const int32_t size = params.num_experts / params.num_groups;
  std::vector<float> worth(params.num_groups);
  for (int32_t g = 0; g < params.num_groups; ++g) {
    Largest(std::span(selection).subspan(static_cast<size_t>(g) * size, size), std::min(2, size),
            ids);
    for (int32_t id : ids) worth[g] += selection[g * size + id];
  }
  Largest(worth, params.num_used_groups, ids);
  for (int32_t g = 0; g < params.num_groups; ++g) {
    if (std::find(ids.begin(), ids.end(), g) != ids.end()) continue;
    std::fill_n(selection.begin() + g * size, size, -std::numeric_limits<float>::infinity());
  }
}

struct RowRouter {
  std::vector<float> scores, selection;
  std::vector<int32_t> ids;

  void Run(const RouterParams& params, const float* logits, int32_t* experts, float* weights) {
    scores.assign(logits, logits + params.num_experts);
    if (params.score == RouterScore::kSoftmax) Softmax(scores);
    if (params.score == RouterScore::kSigmoid) {
      for (float& s : scores) s = kernels::Sigmoid(s);
    }
    selection = scores;
    if (params.selection_bias != nullptr) {
      const auto* bias = static_cast<const float*>(params.selection_bias->data);
      for (int32_t e = 0; e < params.num_experts; ++e) selection[e] += bias[e];
    }
    if (params.num_groups > 1) KeepBestGroups(params, selection, ids);
    Largest(selection, params.num_used, ids);

    std::copy(ids.begin(), ids.end(), experts);
    for (int32_t i = 0; i < params.num_used; ++i) weights[i] = scores[ids[i]];
    if (params.score == RouterScore::kSoftmaxOfChosen)
      Softmax({weights, static_cast<size_t>(params.num_used)});
    if (params.normalize) {
      float sum = 0;
      for (int32_t i = 0; i < params.num_used; ++i) sum += weights[i];
      sum = std::max(sum, 6.103515625e-5f);  // the smallest normal half, as the reference bounds it
      for (int32_t i = 0; i < params.num_used; ++i) weights[i] /= sum;
    }
    for (int32_t i = 0; i < params.num_used; ++i) weights[i] *= params.scale;
  }
};

}  // namespace

Routing CpuBackend::Route(const RouterParams& params, Activations logits) {
  const size_t slots = static_cast<size_t>(logits.rows) * params.num_used;
  Routing routing{.rows = logits.rows,
                  .num_used = params.num_used,
                  .experts = Borrow(sizeof(int32_t) * slots),
                  .weights = Borrow(sizeof(float) * slots)};
  auto* experts = static_cast<int32_t*>(routing.experts->data());
  auto* weights = static_cast<float*>(routing.weights->data());
  RowRouter router;
  for (int32_t r = 0; r < logits.rows; ++r) {
    const int64_t at = int64_t{r} * params.num_used;
    router.Run(params, logits.data + r * logits.stride, experts + at, weights + at);
  }
  return routing;
}

void CpuBackend::ExpertSum(const Routing& routing, Activations x, Activations out) {
  const auto* weights = static_cast<const float*>(routing.weights->data());
  for (int32_t r = 0; r < out.rows; ++r) {
    float* sum = out.data + r * out.stride;
    std::fill_n(sum, out.cols, 0.0f);
    for (int32_t slot = 0; slot < routing.num_used; ++slot) {
      const int64_t row = int64_t{r} * routing.num_used + slot;
      kernels_->add_scaled(sum, x.data + row * x.stride, weights[row], out.cols, sum);
    }
  }
}

}  // namespace baton::engine
