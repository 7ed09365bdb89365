// Template text to tree.
#pragma once

#include <string_view>

#include "engine/base/status.h"
#include "engine/text/jinja/ast.h"

namespace baton::engine::jinja {

// InvalidArgument with line and column where it does not parse.
absl::StatusOr<Block> ParseTemplate(std::string_view source);

}  // namespace baton::engine::jinja
