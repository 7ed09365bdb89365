// How weights lie in device memory: rows of a GGUF tensor, each block cut in two.
//
// A block's larger part, its body, is a multiple of 16 bytes; what is left, mostly a scale of 2
// bytes, would put the next block's body off the boundaries of 16 bytes that wide loads need. So a
// row holds the bodies of all its blocks and then what is left of them, in the same order, and is
// padded to 16 bytes: a copy of the same size, made once, on the way to the device. Types without a
// fast kernel have no body and lie as in the file.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/quant_types.h"

namespace baton::kernels {

struct BlockBody {
  int begin;  // in the block as the file has it
  int bytes;
};
constexpr BlockBody BodyOf(QuantType type) {
  switch (type) {
    case QuantType::kQ4_0:
    case QuantType::kIQ4_NL:
      return {2, 16};
    case QuantType::kQ4_1:
      return {4, 16};
    case QuantType::kQ5_0:
      return {6, 16};
    case QuantType::kQ5_1:
      return {8, 16};
    case QuantType::kQ8_0:
      return {2, 32};
    case QuantType::kMXFP4:
      return {1, 16};
    case QuantType::kQ2_K:
      return {0, 80};
    case QuantType::kQ3_K:
      return {0, 96};
    case QuantType::kQ4_K:
      return {0, 144};
    case QuantType::kQ5_K:
      return {0, 176};
    case QuantType::kQ6_K:
      return {0, 208};
    case QuantType::kIQ4_XS:
      return {8, 128};
    default:
      return {0, 0};
  }
}

// Single values are packed, so that vectors can be taken apart by pointer.
constexpr int64_t DeviceRowBytes(QuantType type, int64_t cols) {
  const int64_t bytes = RowBytes(type, cols);
  return TraitsOf(type).block_size == 1 ? bytes : (bytes + 15) / 16 * 16;
}

// One row, from the file's layout to the device's.
inline void LayOutRow(QuantType type, int64_t cols, const uint8_t* from, uint8_t* to) {
  const BlockBody body = BodyOf(type);
  const int block_bytes = TraitsOf(type).block_bytes;
  const int rest = block_bytes - body.bytes;
  if (body.bytes == 0 || rest == 0) {
    memcpy(to, from, RowBytes(type, cols));
    return;
  }
  const int64_t blocks = cols / TraitsOf(type).block_size;
  uint8_t* rest_to = to + blocks * body.bytes;
  for (int64_t b = 0; b < blocks; ++b, from += block_bytes) {
    memcpy(to, from + body.begin, body.bytes);
    to += body.bytes;
    memcpy(rest_to, body.begin == 0 ? from + body.bytes : from, rest);
    rest_to += rest;
  }
}

}  // namespace baton::kernels
