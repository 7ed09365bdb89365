// The kernel of an activation function, as the backends look it up.
#pragma once

#include <cstdlib>

#include "engine/tensor/operation_params.h"
#include "kernels/kernel_set.h"

namespace baton::engine {

// Not of kSwigluClamped, which has two inputs and kernels of its own.
inline kernels::UnaryOp OpOf(ActivationKind kind) {
  using kernels::UnaryOp;
  switch (kind) {
    case ActivationKind::kSilu:
      return UnaryOp::kSilu;
    case ActivationKind::kGeluTanh:
      return UnaryOp::kGeluTanh;
    case ActivationKind::kGeluErf:
      return UnaryOp::kGeluErf;
    case ActivationKind::kGeluQuick:
      return UnaryOp::kGeluQuick;
    case ActivationKind::kRelu:
      return UnaryOp::kRelu;
    case ActivationKind::kReluSquared:
      return UnaryOp::kReluSquared;
    case ActivationKind::kSwigluClamped:
      break;  // gated only
  }
  std::abort();
}

}  // namespace baton::engine
