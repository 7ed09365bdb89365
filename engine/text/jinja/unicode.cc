#include "engine/text/jinja/unicode.h"

#include <algorithm>
#include <iterator>

#include "engine/text/jinja/unicode_tables.h"

namespace baton::engine::jinja {
namespace {

constexpr char32_t kSpaces[] = {0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
                                0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A,
                                0x2028, 0x2029, 0x202F, 0x205F, 0x3000};

template <typename Range, size_t n>
const Range* FindRange(const Range (&table)[n], char32_t c) {
  const Range* found =
      std::upper_bound(std::begin(table), std::end(table), c,
                       [](char32_t value, const Range& range) { return value < range.first; });
  if (found == std::begin(table)) return nullptr;
  --found;
  return c <= found->last ? found : nullptr;
}

template <size_t n>
char32_t ConvertCase(const CaseRange (&table)[n], char32_t c) {
  // Two ranges with step 2 may interleave: the one before may hold the character too.
  for (const CaseRange* range = FindRange(table, c); range != nullptr;) {
    if ((c - range->first) % range->step == 0) return c + range->delta;
    if (range == std::begin(table) || (--range)->last < c) break;
  }
  return c;
}

bool IsInvalid(CodePoint c) { return c.value == kInvalid; }

template <typename Convert>
std::string MapCodePoints(std::string_view text, Convert convert) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text, i);
    if (IsInvalid(c)) {
      out += text[i];
    } else {
      convert(c.value, out);
    }
    i += c.size;
  }
  return out;
}

}  // namespace

CodePoint DecodeAt(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) {
    return position + i < text.size() ? static_cast<unsigned char>(text[position + i]) : 0u;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const char32_t b = byte(0);
  if (b < 0x80) return {b, 1};
  if (b >= 0xC2 && b < 0xE0 && continues(1)) return {(b & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (b >= 0xE0 && b < 0xF0 && continues(1) && continues(2)) {
    const char32_t c = (b & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) return {c, 3};
  }
  if (b >= 0xF0 && b < 0xF5 && continues(1) && continues(2) && continues(3)) {
    const char32_t c =
        (b & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (c >= 0x10000 && c < 0x110000) return {c, 4};
  }
  return {kInvalid, 1};
}

void AppendUtf8(char32_t c, std::string& out) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) i += DecodeAt(text, i).size;
  return count;
}

size_t OffsetOf(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) offset += DecodeAt(text, offset).size;
  return offset;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return std::binary_search(std::begin(kSpaces), std::end(kSpaces), c);
}

bool IsPrintable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c != 0x7F;
  return c != kInvalid && FindRange(kNotPrintable, c) == nullptr;
}

bool IsUpper(char32_t c) {
  return c < 0x80 ? c >= 'A' && c <= 'Z' : FindRange(kUpper, c) != nullptr;
}

bool IsLower(char32_t c) {
  return c < 0x80 ? c >= 'a' && c <= 'z' : FindRange(kLower, c) != nullptr;
}

bool IsAlpha(char32_t c) {
  return c < 0x80 ? IsUpper(c) || IsLower(c) : FindRange(kAlpha, c) != nullptr;
}

bool IsDigit(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : FindRange(kDigit, c) != nullptr;
}

std::string Upper(std::string_view text) {
  return MapCodePoints(text, [](char32_t c, std::string& out) {
    if (c < 0x80) {
      out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
      return;
    }
    const LongCase* special =
        std::lower_bound(std::begin(kToLongUpper), std::end(kToLongUpper), c,
                         [](const LongCase& row, char32_t value) { return row.from < value; });
    if (special != std::end(kToLongUpper) && special->from == c) {
      out += special->to;
    } else {
      AppendUtf8(ConvertCase(kToUpper, c), out);
    }
  });
}

std::string Lower(std::string_view text) {
  return MapCodePoints(text, [](char32_t c, std::string& out) {
    if (c < 0x80) {
      out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    } else if (c == 0x130) {  // the one character with a longer lower case
      out += "i\u0307";
    } else {
      AppendUtf8(ConvertCase(kToLower, c), out);
    }
  });
}

}  // namespace baton::engine::jinja
