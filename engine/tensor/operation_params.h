// What varies between models in the operations of a layer: small enums and numbers, as values.
//
// Rows of the architecture table name them, backends compute them; neither needs the other for
// that.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kv_type.h"

namespace baton::engine {

using kernels::KvType;

enum class NormKind : uint8_t { kRms, kLayer };

enum class RopePairs : uint8_t {
  kInterleaved,  // (2i, 2i + 1)
  kHalves        // (i, i + dims/2)
};
// Rotation of `dims` numbers of each head, from `offset` on; the others stay. angle(position, i) =
// position * inv_freq[i].
struct RopeParams {
  RopePairs pairs = RopePairs::kInterleaved;
  int32_t dims = 0;
  int32_t offset = 0;
  std::vector<float> inv_freq;  // [dims / 2], scaling included
  float magnitude = 1.0f;       // of the rotated numbers (YaRN's attention factor)
};

enum class ActivationKind : uint8_t {
  kSilu,
  kGeluTanh,
  kGeluErf,
  kGeluQuick,
  kRelu,
  kReluSquared,
  kSwigluClamped,  // gated only: gate * sigmoid(1.702 gate) * (up + 1), gate and up clamped to
                   // limit first
};
struct ActivationParams {
  ActivationKind kind = ActivationKind::kSilu;
  float limit = 0;  // kSwigluClamped
};

enum class RouterScore : uint8_t {
  kSoftmax,         // softmax over all, then choose
  kSigmoid,         // sigmoid of each, then choose
  kSoftmaxOfChosen  // choose by logit, then softmax over the chosen
};

}  // namespace baton::engine
