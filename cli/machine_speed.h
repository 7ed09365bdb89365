// What this machine's memory gives at best: the measure that decode is held against.
#pragma once

namespace baton::cli {

// Bytes a second that so many threads together read from memory.
double MeasureReadBytesPerSecond(int threads);

}  // namespace baton::cli
