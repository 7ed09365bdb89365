// exp and log in double of our own, for numbers that are made once from hyperparameters: the same
// bits on every machine.
//
// Only +, -, *, / and exact scaling, in a fixed order, so that compilers and libraries have no say.
// Errors are a few units in the last place of a double, far below the float that the results
// become.
#pragma once

#include <cmath>

namespace baton::engine {

inline constexpr double kLn2 = 0.6931471805599453;

// |x| < 700.
inline double ExpOf(double x) {
  const double n = std::floor(x / kLn2 + 0.5);
  const double r =
      x - n * 0.69314718036912382 - n * 1.9082149292705877e-10;  // ln 2 in two parts; |r| < 0.35
  double sum = 1.0;
  for (int i = 18; i >= 1; --i) sum = 1.0 + sum * r / i;  // Taylor, by Horner's rule
  return std::ldexp(sum, static_cast<int>(n));
}

// x > 0, finite.
inline double LogOf(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.7071067811865476) {
    m *= 2;
    --exponent;
  }
  // log m = 2 atanh((m - 1) / (m + 1)), |z| < 0.172
  const double z = (m - 1.0) / (m + 1.0);
  double sum = 0.0;
  for (int i = 23; i >= 1; i -= 2) sum = sum * z * z + 1.0 / i;
  return exponent * kLn2 + 2.0 * z * sum;
}

inline double PowOf(double base, double exponent) { return ExpOf(exponent * LogOf(base)); }

}  // namespace baton::engine
