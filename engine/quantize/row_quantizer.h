// Turns rows of float values into blocks of a weight type: for files, not for the token path.
//
// The blocks are those that GGUF tools write without an importance matrix: blocks of 32 bit for
// bit, super-blocks by the same search, to the rounding of its sums.
#pragma once

#include <cstdint>

#include "kernels/quant_types.h"

namespace baton::engine {

// `count` values, a multiple of the type's block size, to their blocks.
using RowQuantizer = void (*)(const float* values, int64_t count, void* blocks);

// nullptr: nobody can write this type.
RowQuantizer RowQuantizerOf(kernels::QuantType type);

// The other way, exactly: from F32, F16 and BF16. nullptr: another type.
using RowReader = void (*)(const void* row, int64_t count, float* values);
RowReader RowReaderOf(kernels::QuantType type);

}  // namespace baton::engine
