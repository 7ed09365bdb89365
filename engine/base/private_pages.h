// Pages of a mapped file that must not change, or go, with the file.
#pragma once

#include <cstddef>
#include <span>

#include "engine/base/status.h"

namespace baton::engine {

// Puts copies of this process's own in place of the pages that hold the first `bytes` of a mapping,
// which begins a page; views into them stay what they are. Nobody else may use it meanwhile.
absl::Status MakePrivate(std::span<const std::byte> mapping, size_t bytes);

}  // namespace baton::engine
