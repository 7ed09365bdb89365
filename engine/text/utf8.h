// UTF-8 at the borders: model output is bytes, what clients get is text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baton::engine {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the start of some bytes: a character, or a maximal part of one that is not
// well-formed (Unicode standard, section 3.9, "U+FFFD substitution of maximal subparts").
struct Utf8Unit {
  size_t bytes = 0;
  bool valid = false;
  bool incomplete = false;  // ended by the end of the bytes; more could make it valid
};
Utf8Unit ReadUtf8(std::string_view bytes);  // not empty

bool IsValidUtf8(std::string_view bytes);

// Turns the bytes of a token stream into text. One stream, one thread.
class Utf8Stream {
 public:
  // The text that is complete with these bytes: an unfinished character at the end is held back,
  // each maximal ill-formed part becomes one U+FFFD.
  std::string Append(std::string_view bytes);
  // The end of the stream: what was held back becomes one U+FFFD.
  std::string Flush();

 private:
  std::string held_;  // an incomplete character, at most 3 bytes
};

}  // namespace baton::engine
