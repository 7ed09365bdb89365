// Cuts a template into tokens: text, and the names, literals and operators inside {{ }} and {% %}.
//
// Follows jinja2 3.1 with trim_blocks and lstrip_blocks: a newline after a block goes, spaces
// before a block on its own line go, "-" strips all white space on its side and "+" keeps it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/jinja/ast.h"

namespace baton::engine::jinja {

struct Token {
  enum class Kind {
    kText,
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;  // text; name; unescaped string; operator
  int64_t integer = 0;
  double number = 0;
  Position position;
};

// The last token is kEnd. InvalidArgument with line and column.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

absl::Status SyntaxError(Position position, std::string_view message);

}  // namespace baton::engine::jinja
