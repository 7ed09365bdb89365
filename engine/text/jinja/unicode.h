// What Python's str knows about characters, on UTF-8. A byte that is not UTF-8 counts as one
// character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baton::engine::jinja {

constexpr char32_t kInvalid = 0xFFFFFFFF;

// The character at `position` and its length in bytes.
struct CodePoint {
  char32_t value;
  size_t size;
};
CodePoint DecodeAt(std::string_view text, size_t position);
void AppendUtf8(char32_t code_point, std::string& out);

size_t CountCodePoints(std::string_view text);
// Byte offset of the character with that index; the size of the text if there are fewer.
size_t OffsetOf(std::string_view text, size_t index);

bool IsSpace(char32_t c);
bool IsPrintable(char32_t c);  // whether repr() shows it as it is
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsAlpha(char32_t c);
bool IsDigit(char32_t c);
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);

}  // namespace baton::engine::jinja
