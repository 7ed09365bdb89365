// Eight floats in two NEON registers. Each lane does what kernels/cpu/scalar/lanes.h says.
#pragma once

#include <arm_neon.h>

#include "kernels/exact_math.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

struct Lanes {
  static constexpr int kSize = 8;
  float32x4_t low, high;

  Lanes() = default;
  explicit Lanes(float f) : low(vdupq_n_f32(f)), high(vdupq_n_f32(f)) {}
  Lanes(float32x4_t l, float32x4_t h) : low(l), high(h) {}

  static Lanes Load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
  static Lanes LoadFirst(const float* p, int n) {  // the others are 0
    float values[kSize] = {};
    for (int i = 0; i < n; ++i) values[i] = p[i];
    return Load(values);
  }
  static Lanes LoadHalves(const uint16_t* p) {
    const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(p));
    return {vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves)};
  }
  static Lanes LoadBfloat16s(const uint16_t* p) {
    const uint16x8_t bits = vld1q_u16(p);
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
            vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16))};
  }
  static Lanes LoadInt8s(const int8_t* p) {
    const int16x8_t words = vmovl_s8(vld1_s8(p));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(words))),
            vcvtq_f32_s32(vmovl_s16(vget_high_s16(words)))};
  }
  void Store(float* p) const {
    vst1q_f32(p, low);
    vst1q_f32(p + 4, high);
  }
  void StoreFirst(float* p, int n) const {
    float values[kSize];
    Store(values);
    for (int i = 0; i < n; ++i) p[i] = values[i];
  }
  float Sum() const {
    const float32x4_t four = vaddq_f32(low, high);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
  float Max() const { return vmaxvq_f32(vmaxq_f32(low, high)); }
};

inline Lanes operator+(Lanes a, Lanes b) {
  return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
inline Lanes operator-(Lanes a, Lanes b) {
  return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
inline Lanes operator*(Lanes a, Lanes b) {
  return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
inline Lanes operator/(Lanes a, Lanes b) {
  return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}
inline Lanes Fma(Lanes a, Lanes b, Lanes c) {
  return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}

struct LanesMask {
  uint32x4_t low, high;
};
inline LanesMask Less(Lanes a, Lanes b) {
  return {vcltq_f32(a.low, b.low), vcltq_f32(a.high, b.high)};
}
inline Lanes Select(LanesMask m, Lanes a, Lanes b) {
  return {vbslq_f32(m.low, a.low, b.low), vbslq_f32(m.high, a.high, b.high)};
}
inline Lanes MinOf(Lanes a, Lanes b) { return Select(Less(a, b), a, b); }  // b where either is NaN
inline Lanes MaxOf(Lanes a, Lanes b) { return Select(Less(b, a), a, b); }
inline Lanes AbsOf(Lanes a) { return {vabsq_f32(a.low), vabsq_f32(a.high)}; }
inline Lanes WithSignOf(Lanes magnitude, Lanes sign) {
  const uint32x4_t mask = vdupq_n_u32(0x80000000u);
  return {vbslq_f32(mask, sign.low, magnitude.low), vbslq_f32(mask, sign.high, magnitude.high)};
}
template <int Shift>
inline Lanes AddAndShiftBits(Lanes a, uint32_t addend) {
  const auto each = [&](float32x4_t v) {
    const uint32x4_t sum = vaddq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(addend));
    return vreinterpretq_f32_u32(vshlq_n_u32(sum, Shift));
  };
  return {each(a.low), each(a.high)};
}
inline void StoreInt8(Lanes a, int8_t* p) {
  const int16x8_t words =
      vcombine_s16(vmovn_s32(vcvtnq_s32_f32(a.low)), vmovn_s32(vcvtnq_s32_f32(a.high)));
  vst1_s8(p, vmovn_s16(words));
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
