#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::engine {

// N of "blk.N.…", the layer that a tensor belongs to; nullopt: to none.
std::optional<int32_t> LayerOfTensor(std::string_view name);

}  // namespace baton::engine
