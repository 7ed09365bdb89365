// Means of what was measured lately.
#pragma once

namespace baton::coordinator {

// An exponential moving average that begins at its first value; `weight` in (0, 1] is that of the
// new one. 0: no value yet.
inline void MixIn(double value, double weight, double* mean) {
  *mean = *mean == 0 ? value : *mean + weight * (value - *mean);
}

}  // namespace baton::coordinator
