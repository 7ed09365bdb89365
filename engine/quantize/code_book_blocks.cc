// IQ4_NL: 32 values, each an index into 16 values that lie closer around zero.
#include <algorithm>
#include <cmath>

#include "engine/quantize/block_quantizers.h"
#include "engine/quantize/rounding.h"
#include "kernels/unpack.h"

namespace baton::engine {
namespace {

constexpr int kCodeBookValues = 32;
constexpr int kTries = 7;  // scales tried on each side of the obvious one

struct CodeBook {
  float value[16];
  CodeBook() {
    for (int i = 0; i < 16; ++i) value[i] = static_cast<float>(kernels::Iq4Value(i));
  }
};
const CodeBook kBook;

int NearestIndex(float value) {
  const float* book = kBook.value;
  if (value <= book[0]) return 0;
  if (value >= book[15]) return 15;
  int low = 0;
  int high = 15;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (value < book[middle] ? high : low) = middle;
  }
  return value - book[high - 1] < book[high] - value ? high - 1 : high;
}

// How well a scale fits: sum of w x q and sum of w q q, with w = x x.
struct Fit {
  float xq = 0;
  float qq = 0;
};
Fit FitWith(const float* values, float inverse) {
  Fit fit;
  for (int i = 0; i < kCodeBookValues; ++i) {
    const float q = kBook.value[NearestIndex(values[i] * inverse)];
    const float weight = values[i] * values[i];
    fit.xq += weight * q * values[i];
    fit.qq += weight * q * q;
  }
  return fit;
}

float BestScale(const float* values, float extreme) {
  const float first = kBook.value[0];
  const Fit start = FitWith(values, 1.0f / (-extreme / first));
  float scale = start.xq / start.qq;
  float best = scale * start.xq;
  for (int step = -kTries; step <= kTries; ++step) {
    const Fit fit = FitWith(values, (static_cast<float>(step) + first) / extreme);
    if (fit.qq > 0 && fit.xq * fit.xq > best * fit.qq) {
      scale = fit.xq / fit.qq;
      best = scale * fit.xq;
    }
  }
  return scale;
}

}  // namespace

void QuantizeBlock(const float* values, kernels::BlockIQ4_NL* block) {
  float extreme = 0;
  for (int i = 0; i < kCodeBookValues; ++i) {
    if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
  }
  const float scale = std::fabs(extreme) < kTinyGroup ? 0 : BestScale(values, extreme);
  const float inverse = scale != 0 ? 1.0f / scale : 0;
  block->d = ToHalf(scale);
  for (int j = 0; j < kCodeBookValues / 2; ++j) {
    const int low = NearestIndex(values[j] * inverse);
    const int high = NearestIndex(values[j + kCodeBookValues / 2] * inverse);
    block->qs[j] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace baton::engine
