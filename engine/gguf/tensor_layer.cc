#include "engine/gguf/tensor_layer.h"

#include <charconv>

namespace baton::engine {

std::optional<int32_t> LayerOfTensor(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int32_t layer = 0;
  const auto result =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  if (result.ec != std::errc() || layer < 0) return std::nullopt;
  return layer;
}

}  // namespace baton::engine
