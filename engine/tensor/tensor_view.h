// A tensor that somebody else owns: where it lies, its type and shape. Copy it freely; it must not
// outlive the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/quant_types.h"

namespace baton::engine {

struct TensorView {
  std::string_view name;  // for errors
  kernels::QuantType type = kernels::QuantType::kF32;
  std::array<int64_t, 4> ne = {1, 1, 1, 1};  // ne[0] is the row length
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
};

}  // namespace baton::engine
