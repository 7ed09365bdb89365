// What cached keys and values are stored as. Known to everybody who plans memory for them.
#pragma once

#include <cstdint>

namespace baton::kernels {

enum class KvType : uint8_t { kF16, kF32, kQ8_0 };

}  // namespace baton::kernels
