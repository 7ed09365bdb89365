// Eight floats side by side, in plain C++: what the definition of sums over lanes means
// (ARITHMETIC.md).
#pragma once

#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

struct Lanes {
  static constexpr int kSize = 8;
  float v[8];

  Lanes() = default;
  explicit Lanes(float f) {
    for (float& x : v) x = f;
  }
  template <class F>
  static Lanes Each(F f) {
    Lanes r;
    for (int i = 0; i < 8; ++i) r.v[i] = f(i);
    return r;
  }

  static Lanes Load(const float* p) {
    return Each([&](int i) { return p[i]; });
  }
  static Lanes LoadFirst(const float* p, int n) {  // the others are 0
    return Each([&](int i) { return i < n ? p[i] : 0.0f; });
  }
  static Lanes LoadHalves(const uint16_t* p) {
    return Each([&](int i) { return HalfToFloat(p[i]); });
  }
  static Lanes LoadBfloat16s(const uint16_t* p) {
    return Each([&](int i) { return Bfloat16ToFloat(p[i]); });
  }
  static Lanes LoadInt8s(const int8_t* p) {
    return Each([&](int i) { return static_cast<float>(p[i]); });
  }
  void Store(float* p) const {
    for (int i = 0; i < 8; ++i) p[i] = v[i];
  }
  void StoreFirst(float* p, int n) const {
    for (int i = 0; i < n; ++i) p[i] = v[i];
  }
  float Sum() const { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
  float Max() const {
    float m = v[0];
    for (float x : v) m = MaxOf(m, x);
    return m;
  }
};

#define BATON_LANES_OPERATOR(op)                                 \
  inline Lanes operator op(Lanes a, Lanes b) {                   \
    return Lanes::Each([&](int i) { return a.v[i] op b.v[i]; }); \
  }
BATON_LANES_OPERATOR(+)
BATON_LANES_OPERATOR(-)
BATON_LANES_OPERATOR(*)
BATON_LANES_OPERATOR(/)
#undef BATON_LANES_OPERATOR

struct LanesMask {
  bool v[8];
};
inline Lanes Fma(Lanes a, Lanes b, Lanes c) {
  return Lanes::Each([&](int i) { return Fma(a.v[i], b.v[i], c.v[i]); });
}
inline Lanes MinOf(Lanes a, Lanes b) {
  return Lanes::Each([&](int i) { return MinOf(a.v[i], b.v[i]); });
}
inline Lanes MaxOf(Lanes a, Lanes b) {
  return Lanes::Each([&](int i) { return MaxOf(a.v[i], b.v[i]); });
}
inline Lanes AbsOf(Lanes a) {
  return Lanes::Each([&](int i) { return AbsOf(a.v[i]); });
}
inline Lanes WithSignOf(Lanes magnitude, Lanes sign) {
  return Lanes::Each([&](int i) { return WithSignOf(magnitude.v[i], sign.v[i]); });
}
inline LanesMask Less(Lanes a, Lanes b) {
  LanesMask m;
  for (int i = 0; i < 8; ++i) m.v[i] = a.v[i] < b.v[i];
  return m;
}
inline Lanes Select(LanesMask m, Lanes a, Lanes b) {
  return Lanes::Each([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}
template <int Shift>
inline Lanes AddAndShiftBits(Lanes a, uint32_t addend) {
  return Lanes::Each([&](int i) { return AddAndShiftBits<Shift>(a.v[i], addend); });
}
// Integers in [-127, 127], kept as floats, to bytes.
inline void StoreInt8(Lanes a, int8_t* p) {
  for (int i = 0; i < 8; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
