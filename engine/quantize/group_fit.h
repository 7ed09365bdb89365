// The search for the scales of a super-block's groups: least squares over a few roundings, the best
// kept.
//
// All groups of a super-block are fitted side by side, a lane each, so that the compiler can use
// vectors; within a lane everything is added up in the order of the values. The method is that of
// ggml's quantizers.
#pragma once

#include <cmath>
#include <cstring>

#include "engine/quantize/rounding.h"

namespace baton::engine {

template <int kGroups, int kSize>
struct Groups {
  float x[kSize][kGroups];  // value i of each group
};

template <int kGroups, int kSize>
Groups<kGroups, kSize> TransposedGroups(const float* values) {
  Groups<kGroups, kSize> groups;
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 0; i < kSize; ++i) groups.x[i][g] = values[g * kSize + i];
  }
  return groups;
}

// x is about scale * q - min, q in [0, max_q], min >= 0.
template <int kGroups, int kSize>
struct AffineFit {
  float scale[kGroups];
  float min[kGroups];
  float q[kSize][kGroups];
};

// x is about scale * q, q in [-max_q, max_q - 1].
template <int kGroups>
struct SymmetricFit {
  float scale[kGroups];
};

struct SearchSteps {
  float first;  // added to max_q in the first try
  float step;
  int count;
};

// Weighted sums over a group, with weights w = root mean square + |x|.
template <int kGroups, int kSize>
class AffineSearch {
 public:
  AffineSearch(const Groups<kGroups, kSize>& groups, float max_q) : x_(groups.x), max_q_(max_q) {
    SetWeights();
    SetRange();
  }

  AffineFit<kGroups, kSize> Run(SearchSteps steps) {
    Start();
    for (int s = 0; s <= steps.count; ++s) Try(steps.first + steps.step * static_cast<float>(s));
    for (int g = 0; g < kGroups; ++g) {
      best_.min[g] = -min_[g];
      if (flat_[g]) best_.scale[g] = 0;
    }
    return best_;
  }

 private:
  void SetWeights() {
    float squares[kGroups] = {};
    for (int i = 0; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) squares[g] += x_[i][g] * x_[i][g];
    }
    float rms[kGroups];
    for (int g = 0; g < kGroups; ++g) rms[g] = std::sqrt(squares[g] / kSize);
    for (int i = 0; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) {
        weight_[i][g] = rms[g] + std::fabs(x_[i][g]);
        sum_w_[g] += weight_[i][g];
        sum_x_[g] += weight_[i][g] * x_[i][g];
      }
    }
  }

  void SetRange() {
    for (int g = 0; g < kGroups; ++g) min_[g] = max_[g] = x_[0][g];
    for (int i = 1; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) {
        min_[g] = x_[i][g] < min_[g] ? x_[i][g] : min_[g];
        max_[g] = x_[i][g] > max_[g] ? x_[i][g] : max_[g];
      }
    }
    for (int g = 0; g < kGroups; ++g) {
      min_[g] = min_[g] > 0 ? 0 : min_[g];
      flat_[g] = max_[g] == min_[g];
    }
  }

  // q of all values for `levels` steps from the best minimum so far to the largest value.
  void Round(float levels, float (*q)[kGroups]) const {
    float inverse[kGroups];
    for (int g = 0; g < kGroups; ++g) inverse[g] = flat_[g] ? 0 : levels / (max_[g] - min_[g]);
    for (int i = 0; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) {
        q[i][g] = Clamped(NearestInteger(inverse[g] * (x_[i][g] - min_[g])), 0, max_q_);
      }
    }
  }

  void Error(const float (*q)[kGroups], const float* scale, const float* min, float* error) const {
    for (int g = 0; g < kGroups; ++g) error[g] = 0;
    for (int i = 0; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) {
        const float difference = scale[g] * q[i][g] + min[g] - x_[i][g];
        error[g] += weight_[i][g] * (difference * difference);
      }
    }
  }

  void Start() {
    Round(max_q_, best_.q);
    for (int g = 0; g < kGroups; ++g) {
      best_.scale[g] = flat_[g] ? 0 : 1 / (max_q_ / (max_[g] - min_[g]));
    }
    Error(best_.q, best_.scale, min_, best_error_);
  }

  void Try(float more_levels) {
    float q[kSize][kGroups];
    Round(more_levels + max_q_, q);
    float sum_q[kGroups] = {};
    float sum_qq[kGroups] = {};
    float sum_xq[kGroups] = {};
    for (int i = 0; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) {
        const float wq = weight_[i][g] * q[i][g];
        sum_q[g] += wq;
        sum_qq[g] += wq * q[i][g];
        sum_xq[g] += wq * x_[i][g];
      }
    }
    float scale[kGroups];
    float min[kGroups];
    bool solvable[kGroups];
    for (int g = 0; g < kGroups; ++g) {
      const float determinant = sum_w_[g] * sum_qq[g] - sum_q[g] * sum_q[g];
      solvable[g] = determinant > 0;
      const float divisor = solvable[g] ? determinant : 1;
      scale[g] = (sum_w_[g] * sum_xq[g] - sum_x_[g] * sum_q[g]) / divisor;
      min[g] = (sum_qq[g] * sum_x_[g] - sum_q[g] * sum_xq[g]) / divisor;
      if (solvable[g] && min[g] > 0) {
        min[g] = 0;
        scale[g] = sum_xq[g] / sum_qq[g];
      }
    }
    float error[kGroups];
    Error(q, scale, min, error);
    for (int g = 0; g < kGroups; ++g) {
      if (!solvable[g] || !(error[g] < best_error_[g])) continue;
      for (int i = 0; i < kSize; ++i) best_.q[i][g] = q[i][g];
      best_error_[g] = error[g];
      best_.scale[g] = scale[g];
      min_[g] = min[g];
    }
  }

  const float (&x_)[kSize][kGroups];
  const float max_q_;
  float weight_[kSize][kGroups];
  float sum_w_[kGroups] = {};
  float sum_x_[kGroups] = {};
  float min_[kGroups];  // best so far, at most 0
  float max_[kGroups];
  bool flat_[kGroups];
  float best_error_[kGroups];
  AffineFit<kGroups, kSize> best_;
};

// Weights w = x x.
template <int kGroups, int kSize>
class SymmetricSearch {
 public:
  SymmetricSearch(const Groups<kGroups, kSize>& groups, float max_q) : x_(groups.x), max_q_(max_q) {
    for (int i = 0; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) {
        const bool larger = std::fabs(x_[i][g]) > std::fabs(extreme_[g]);
        extreme_[g] = larger ? x_[i][g] : extreme_[g];
      }
    }
  }

  SymmetricFit<kGroups> Run(float step, int steps_each_side) {
    Try(0, /*first=*/true);
    for (int s = -steps_each_side; s <= steps_each_side; ++s) {
      if (s != 0) Try(step * static_cast<float>(s), /*first=*/false);
    }
    for (int g = 0; g < kGroups; ++g) {
      if (std::fabs(extreme_[g]) < kTinyGroup) fit_.scale[g] = 0;
    }
    return fit_;
  }

 private:
  void Try(float more_levels, bool first) {
    float inverse[kGroups];
    for (int g = 0; g < kGroups; ++g) {
      const bool tiny = std::fabs(extreme_[g]) < kTinyGroup;
      inverse[g] = tiny ? 0 : -(max_q_ + more_levels) / extreme_[g];
    }
    float sum_xq[kGroups] = {};
    float sum_qq[kGroups] = {};
    for (int i = 0; i < kSize; ++i) {
      for (int g = 0; g < kGroups; ++g) {
        const float x = x_[i][g];
        const float q = Clamped(NearestInteger(inverse[g] * x), -max_q_, max_q_ - 1);
        const float weight = x * x;
        sum_xq[g] += weight * x * q;
        sum_qq[g] += weight * q * q;
      }
    }
    for (int g = 0; g < kGroups; ++g) {
      const bool better = first || (sum_qq[g] > 0 && sum_xq[g] * sum_xq[g] > best_[g] * sum_qq[g]);
      if (!better) continue;
      fit_.scale[g] = sum_qq[g] != 0 ? sum_xq[g] / sum_qq[g] : 0;
      best_[g] = fit_.scale[g] * sum_xq[g];
    }
  }

  const float (&x_)[kSize][kGroups];
  const float max_q_;
  float extreme_[kGroups] = {};
  float best_[kGroups] = {};
  SymmetricFit<kGroups> fit_ = {};
};

}  // namespace baton::engine
