#pragma once

#include <cstdint>

namespace baton::engine {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

}  // namespace baton::engine
