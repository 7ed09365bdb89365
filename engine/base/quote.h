// Bytes of unknown origin made fit for a terminal, a log or JSON: file contents may hold escape
// codes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baton::engine {

// Length of the valid UTF-8 sequence that `text` begins with; 0 where there is none.
size_t Utf8SequenceLength(std::string_view text);

// `text` with control bytes, backslashes and invalid UTF-8 written as \n, \t, \\ or \xNN; cut with
// "…" after about `max_bytes` bytes of input, never inside a sequence.
std::string Escaped(std::string_view text, size_t max_bytes = std::string_view::npos);

// For error messages: escaped, and of a length that a person can read.
inline std::string Named(std::string_view name) { return Escaped(name, 128); }

}  // namespace baton::engine
