// Functions of single numbers between the products of a layer, over V as in exact_math.h
// (ARITHMETIC.md, "Element by element", "Rotation"): the CPU's and CUDA's kernels do the same.
#pragma once

#include "kernels/exact_math.h"
#include "kernels/kernel_set.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class V>
BATON_HD inline V SoftCapped(V x, V cap) {
  return cap * Tanh(x / cap);
}

template <UnaryOp Op, class V>
BATON_HD inline V Unary(V x) {
  const V zero(0.0f), one(1.0f), half(0.5f);
  if constexpr (Op == UnaryOp::kSilu) return x / (one + Exp(zero - x));
  if constexpr (Op == UnaryOp::kGeluTanh) {
    const V inner = x * V(0.7978845608028654f) * Fma(x * x, V(0.044715f), one);
    return half * x * (one + Tanh(inner));
  }
  if constexpr (Op == UnaryOp::kGeluErf) return half * x * (one + Erf(x * V(0.7071067811865476f)));
  if constexpr (Op == UnaryOp::kGeluQuick) return x / (one + Exp(x * V(-1.702f)));
  if constexpr (Op == UnaryOp::kRelu) return MaxOf(x, zero);
  if constexpr (Op == UnaryOp::kReluSquared) {
    const V positive = MaxOf(x, zero);
    return positive * positive;
  }
}

// `gate` through gelu (quick), times up + 1; both within the limit first.
template <class V>
BATON_HD inline V SwigluClamped(V gate, V up, V limit) {
  const V g = MinOf(limit, gate);
  const V u = MaxOf(V(0.0f) - limit, MinOf(limit, up));
  return Unary<UnaryOp::kGeluQuick>(g) * (u + V(1.0f));
}

// Turns the pair (a, b) by an angle.
BATON_HD inline void RotatePair(float cos, float sin, float& a, float& b) {
  const float x = a, y = b;
  a = Fma(x, cos, -(y * sin));
  b = Fma(x, sin, y * cos);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
