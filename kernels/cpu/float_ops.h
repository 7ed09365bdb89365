// Operations over floats, written once over Lanes: norms, activations, rotation, rounding of
// activations. Each instruction set's float_ops.cc includes its own lanes.h and then this file.
// ARITHMETIC.md defines what they do.
#pragma once

#include "kernels/element_ops.h"
#include "kernels/kernel_set.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// Calls f(i, n) for each run of n <= 8 values; n is 8 but for the last.
template <class F>
inline void ForLanes(int32_t count, F f) {
  int32_t i = 0;
  for (; i + Lanes::kSize <= count; i += Lanes::kSize) f(i, Lanes::kSize);
  if (i < count) f(i, count - i);
}
inline Lanes LoadUpTo(const float* p, int n) {
  return n == Lanes::kSize ? Lanes::Load(p) : Lanes::LoadFirst(p, n);
}
inline void StoreUpTo(Lanes v, float* p, int n) {
  if (n == Lanes::kSize) {
    v.Store(p);
  } else {
    v.StoreFirst(p, n);
  }
}

// ---- norms --------------------------------------------------------------------------------------

inline void Normalize(const float* x, int32_t n, float shift, float factor, const float* weight,
                      const float* bias, float* out) {
  const Lanes shifts(shift), factors(factor);
  ForLanes(n, [&](int32_t i, int count) {
    Lanes v = (LoadUpTo(x + i, count) - shifts) * factors;
    if (weight != nullptr) v = v * LoadUpTo(weight + i, count);
    if (bias != nullptr) v = v + LoadUpTo(bias + i, count);
    StoreUpTo(v, out + i, count);
  });
}
inline float InverseRoot(float mean_square, float eps) {
  return 1.0f / __builtin_sqrtf(mean_square + eps);
}

inline void RmsNorm(const float* x, int32_t n, float eps, const float* weight, const float* bias,
                    float* out) {
  Lanes squares(0.0f);
  ForLanes(n, [&](int32_t i, int count) {
    const Lanes v = LoadUpTo(x + i, count);
    squares = Fma(v, v, squares);
  });
  const float inverse = InverseRoot(squares.Sum() / static_cast<float>(n), eps);
  Normalize(x, n, 0.0f, inverse, weight, bias, out);
}

inline void LayerNorm(const float* x, int32_t n, float eps, const float* weight, const float* bias,
                      float* out) {
  Lanes sums(0.0f);
  ForLanes(n, [&](int32_t i, int count) { sums = sums + LoadUpTo(x + i, count); });
  const float mean = sums.Sum() / static_cast<float>(n);
  const Lanes means(mean);
  Lanes squares(0.0f);
  ForLanes(n, [&](int32_t i, int count) {
    Lanes v = LoadUpTo(x + i, count) - means;
    if (count < Lanes::kSize) {  // lanes beyond the row count as 0
      float kept[Lanes::kSize];
      v.Store(kept);
      v = Lanes::LoadFirst(kept, count);
    }
    squares = Fma(v, v, squares);
  });
  const float inverse = InverseRoot(squares.Sum() / static_cast<float>(n), eps);
  Normalize(x, n, mean, inverse, weight, bias, out);
}

// ---- element by element -------------------------------------------------------------------------

inline void AddScaled(const float* a, const float* b, float scale, int32_t n, float* out) {
  const Lanes s(scale);
  ForLanes(n, [&](int32_t i, int count) {
    StoreUpTo(Fma(s, LoadUpTo(b + i, count), LoadUpTo(a + i, count)), out + i, count);
  });
}
inline void ScaleBy(float factor, int32_t n, float* x) {
  const Lanes f(factor);
  ForLanes(n, [&](int32_t i, int count) { StoreUpTo(LoadUpTo(x + i, count) * f, x + i, count); });
}
inline void SoftCap(float cap, int32_t n, float* x) {
  const Lanes c(cap);
  ForLanes(n, [&](int32_t i, int count) {
    StoreUpTo(SoftCapped(LoadUpTo(x + i, count), c), x + i, count);
  });
}

inline void Clamp(float limit, int32_t n, float* x) {
  const Lanes high(limit), low(-limit);
  ForLanes(n, [&](int32_t i, int count) {
    StoreUpTo(MaxOf(low, MinOf(high, LoadUpTo(x + i, count))), x + i, count);
  });
}

template <UnaryOp Op>
void UnaryRow(int32_t n, float* x) {
  ForLanes(
      n, [&](int32_t i, int count) { StoreUpTo(Unary<Op>(LoadUpTo(x + i, count)), x + i, count); });
}
template <UnaryOp Op>
void GatedRow(const float* gate, const float* up, int32_t n, float* out) {
  ForLanes(n, [&](int32_t i, int count) {
    StoreUpTo(Unary<Op>(LoadUpTo(gate + i, count)) * LoadUpTo(up + i, count), out + i, count);
  });
}
inline void GatedSwigluClamped(const float* gate, const float* up, float limit, int32_t n,
                               float* out) {
  const Lanes bound(limit);
  ForLanes(n, [&](int32_t i, int count) {
    StoreUpTo(SwigluClamped(LoadUpTo(gate + i, count), LoadUpTo(up + i, count), bound), out + i,
              count);
  });
}

inline void RopeHalves(const float* cos, const float* sin, int32_t half, float* x) {
  for (int32_t i = 0; i < half; ++i) RotatePair(cos[i], sin[i], x[i], x[i + half]);
}
inline void RopeInterleaved(const float* cos, const float* sin, int32_t half, float* x) {
  for (int32_t i = 0; i < half; ++i) RotatePair(cos[i], sin[i], x[2 * i], x[2 * i + 1]);
}

// ---- rounding of activations --------------------------------------------------------------------

template <int Group>
void RoundRow(const float* x, int32_t cols, const RoundedRows& out, float* left_over) {
  for (int32_t group = 0; group < cols / Group; ++group) {
    const float* v = x + group * Group;
    int8_t* q = out.values + group * Group;
    Lanes largest(0.0f);
    for (int i = 0; i < Group; i += Lanes::kSize)
      largest = MaxOf(largest, AbsOf(Lanes::Load(v + i)));
    const float max = largest.Max();
    const float scale = max / 127.0f;
    out.scales[group] = scale;
    // Values too small to divide by become 0, as does what is not finite.
    const Lanes factor(max > 1e-30f ? 127.0f / max : 0.0f), bound(128.0f), zero(0.0f);
    for (int i = 0; i < Group; i += Lanes::kSize) {
      const Lanes scaled = Lanes::Load(v + i) * factor;
      const Lanes rounded = RoundToInteger(Select(Less(AbsOf(scaled), bound), scaled, zero));
      StoreInt8(rounded, q + i);
      if (left_over != nullptr) {
        Fma(Lanes(-scale), rounded, Lanes::Load(v + i)).Store(left_over + group * Group + i);
      }
    }
    for (int i = 0; i < Group; i += 16) {
      int sum = 0;
      for (int j = 0; j < 16; ++j) sum += q[i + j];
      out.sums[(group * Group + i) / 16] = static_cast<int16_t>(sum);
    }
  }
}

inline void FillFloatOps(KernelSet& set) {
  set.round[static_cast<int>(ActivationFormat::kInt8By32)] = RoundRow<32>;
  set.round[static_cast<int>(ActivationFormat::kInt8By256)] = RoundRow<256>;
  set.rms_norm = RmsNorm;
  set.layer_norm = LayerNorm;
  set.add_scaled = AddScaled;
  set.scale = ScaleBy;
  set.soft_cap = SoftCap;
  set.clamp = Clamp;
#define BATON_FILL_UNARY(op)                                        \
  set.unary[static_cast<int>(UnaryOp::op)] = UnaryRow<UnaryOp::op>; \
  set.gated[static_cast<int>(UnaryOp::op)] = GatedRow<UnaryOp::op>;
  BATON_FOR_EACH_UNARY_OP(BATON_FILL_UNARY)
#undef BATON_FILL_UNARY
  set.gated_swiglu_clamped = GatedSwigluClamped;
  set.rope_halves = RopeHalves;
  set.rope_interleaved = RopeInterleaved;
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
