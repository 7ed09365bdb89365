// exp, tanh, erf, log, sin and cos of our own: the same bits on every machine (libm picks other
// variants on other CPUs).
//
// Written once over V, which is float or the lanes of a register (kernels/cpu/*/lanes.h): each lane
// does what a single float would do. Everything is exact operations: +, -, *, /, sqrt, fma and
// bits. Polynomials are Chebyshev fits; errors stand beside them, in units of the last place of the
// result (ulp).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/half.h"
#include "kernels/host_device.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// The operations that lanes have and a float lacks.
BATON_HD inline float Fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
BATON_HD inline float MinOf(float a, float b) { return a < b ? a : b; }  // b where either is NaN
BATON_HD inline float MaxOf(float a, float b) { return a > b ? a : b; }
BATON_HD inline bool Less(float a, float b) { return a < b; }
BATON_HD inline float Select(bool mask, float a, float b) { return mask ? a : b; }
BATON_HD inline float AbsOf(float a) { return FloatFromBits(BitsOf(a) & 0x7fffffffu); }
BATON_HD inline float WithSignOf(float magnitude, float sign) {
  return FloatFromBits((BitsOf(magnitude) & 0x7fffffffu) | (BitsOf(sign) & 0x80000000u));
}
// The bits of `a`, plus an integer, shifted left.
template <int Shift>
BATON_HD inline float AddAndShiftBits(float a, uint32_t addend) {
  return FloatFromBits((BitsOf(a) + addend) << Shift);
}

// 1.5 * 2^23: a float near it has the unit in its last bit, so adding it rounds to an integer (ties
// to even).
inline constexpr float kRoundingMagic = 12582912.0f;

template <class V>
BATON_HD inline V RoundToInteger(V x) {  // |x| < 2^22
  return (x + V(kRoundingMagic)) - V(kRoundingMagic);
}
template <class V>
BATON_HD inline V PowerOfTwo(V n) {  // n an integer in [-126, 127]
  return AddAndShiftBits<23>(n + V(kRoundingMagic), 127);
}
// c[0] + c[1] x + ... by Horner's rule.
template <class V, int N>
BATON_HD inline V Polynomial(const float (&c)[N], V x) {
  V sum(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) sum = Fma(sum, x, V(c[i]));
  return sum;
}

// e^x within 1 ulp (normal results). Overflows to infinity, underflows gradually to 0; NaN stays
// NaN.
template <class V>
BATON_HD inline V Exp(V x) {
  constexpr float kTail[] = {0.5f,
                             0.1666666716337204f,
                             0.04166646674275398f,
                             0.00833331048488617f,
                             0.0013933642767369747f,
                             0.0001989098236663267f};
  x = MinOf(V(89.0f), MaxOf(V(-104.0f), x));
  const V n = RoundToInteger(x * V(1.4426950216293335f));
  V r = Fma(n, V(-0.693359375f), x);  // ln 2 in two parts, the first exact in products with n
  r = Fma(n, V(0.00021219444170128554f), r);
  const V p = Fma(Polynomial(kTail, r), r * r, r) + V(1.0f);
  const V half = RoundToInteger(n * V(0.5f));  // two steps: 2^n itself may be out of range
  return p * PowerOfTwo(half) * PowerOfTwo(n - half);
}

template <class V>
BATON_HD inline V Sigmoid(V x) {
  return V(1.0f) / (V(1.0f) + Exp(V(0.0f) - x));
}

// Within 2 ulp.
template <class V>
BATON_HD inline V Tanh(V x) {
  constexpr float kSmall[] = {-0.3333333432674408f,  0.1333329975605011f,  -0.053958460688591f,
                              0.021762503311038017f, -0.0083231870085001f, 0.0022695017978549004f};
  const V a = AbsOf(x);
  const V z = x * x;
  const V small = Fma(a * z, Polynomial(kSmall, z), a);
  const V large = V(1.0f) - V(2.0f) / (Exp(a + a) + V(1.0f));
  return WithSignOf(Select(Less(a, V(0.625f)), small, large), x);
}

// Within 3 ulp.
template <class V>
BATON_HD inline V Erf(V x) {
  constexpr float kSmall[] = {1.1283791065216064f,   -0.3761262595653534f,  0.11283594369888306f,
                              -0.02685421146452427f, 0.005189087241888046f, -0.000801686430349946f,
                              7.875874871388078e-05f};
  constexpr float kLogErfc[] = {
      -0.0003201380604878068f, 1.1302334070205688f,    0.6318260431289673f,
      0.11008008569478989f,    -0.026421135291457176f, 0.004759596195071936f,
      -0.0005968056502752006f, 4.605804133461788e-05f, -1.6371513993362896e-06f};
  const V a = MinOf(V(4.0f), AbsOf(x));  // erf(4) rounds to 1
  const V small = a * Polynomial(kSmall, a * a);
  const V large = V(1.0f) - Exp(V(0.0f) - Polynomial(kLogErfc, a));
  return WithSignOf(Select(Less(a, V(1.0f)), small, large), x);
}

// ---- double, for what is computed once: angles, log-probabilities -------------------------------

BATON_HD inline double Fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

struct SinCosResult {
  double sin, cos;
};
// |x| < 2^30, within 1e-15 absolute. Cody and Waite's reduction by pi / 2, then Taylor series on
// [-pi/4, pi/4].
BATON_HD inline SinCosResult SinCos(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
  const double n = (x * 0.6366197723675814 + kMagic) - kMagic;
  double r = Fma(n, -1.5707963267948966, x);
  r = Fma(n, -6.123233995736766e-17, r);
  const double z = r * r;
  double s = -1.0 / 1307674368000.0, c = 1.0 / 20922789888000.0;
  constexpr double kSin[] = {1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0,
                             -1.0 / 5040.0,      1.0 / 120.0,       -1.0 / 6.0};
  constexpr double kCos[] = {-1.0 / 87178291200.0,
                             1.0 / 479001600.0,
                             -1.0 / 3628800.0,
                             1.0 / 40320.0,
                             -1.0 / 720.0,
                             1.0 / 24.0,
                             -0.5};
  for (double k : kSin) s = Fma(s, z, k);
  for (double k : kCos) c = Fma(c, z, k);
  const double sine = Fma(s * z, r, r), cosine = Fma(c, z, 1.0);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

// Natural logarithm of a positive, finite number, within 2 ulp of a double; 0 gives -infinity.
BATON_HD inline double Log(double x) {
  if (x == 0) return -__builtin_huge_val();
  int64_t bits;
  int exponent = 0;
  if (x < 2.2250738585072014e-308) {  // subnormal
    x *= 18014398509481984.0;         // 2^54
    exponent = -54;
  }
  memcpy(&bits, &x, 8);
  exponent += static_cast<int>((bits >> 52) - 1023);
  bits = (bits & 0x000fffffffffffff) | 0x3ff0000000000000;
  double m;
  memcpy(&m, &bits, 8);
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  // log m = 2 artanh s, s = (m - 1) / (m + 1), |s| < 0.172
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 1.0 / 23;
  for (int k = 21; k >= 3; k -= 2) sum = Fma(sum, z, 1.0 / k);
  const double e = exponent;
  const double log_m = Fma(2 * s * z, sum, 2 * s);
  return Fma(e, 0.6931471805599453, Fma(e, 2.3190468138462996e-17, log_m));
}

// e^x for x in [-32, 0], within 1e-12 of the value. Plain products and sums: a row of logits has
// 150,000 of them, and where the machine's fma may not be used, a call for each costs more than all
// of this. Cody and Waite's reduction, then the series.
BATON_HD inline double ExpOfDistance(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  const double n = (x * 1.4426950408889634 + kMagic) - kMagic;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  constexpr double kReciprocalFactorials[] = {1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                              1.0 / 120,    1.0 / 24,    1.0 / 6,    0.5,
                                              1.0,          1.0};
  double sum = 1.0 / 3628800;
  for (const double coefficient : kReciprocalFactorials) sum = sum * r + coefficient;
  const int64_t power_bits = (static_cast<int64_t>(n) + 1023) << 52;
  double power;
  memcpy(&power, &power_bits, 8);
  return sum * power;
}
// The weight of a token beside that of the best one, from the distance of their logits. Those below
// e^-32 count as nothing: a million of them change a sum by 1e-8.
BATON_HD inline double WeightOfDistance(float distance) {
  return distance < -32.0f ? 0.0 : ExpOfDistance(distance);
}
// The weights of a row are added up by this many sums: that of token i goes to sum i mod
// kWeightSums, in increasing i. Then, half after half, sum i takes sum i + half, until one is left.
inline constexpr int kWeightSums = 1024;

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
