#pragma once

#include <cstdint>

namespace baton::engine {

// Layers [begin, end) of a model.
struct LayerRange {
  int32_t begin = 0;
  int32_t end = 0;

  int32_t size() const { return end - begin; }
  bool Contains(int32_t layer) const { return begin <= layer && layer < end; }
  bool operator==(const LayerRange&) const = default;
};

}  // namespace baton::engine
