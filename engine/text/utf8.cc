#include "engine/text/utf8.h"

#include <cstdint>

namespace baton::engine {
namespace {

// Well-formed sequences by lead byte (Unicode standard, table 3-7). Bytes after the second are
// always 80..BF.
struct LeadByte {
  uint8_t first, last;
  uint8_t length;
  uint8_t second_min, second_max;
};
constexpr LeadByte kLeadBytes[] = {
    {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF}, {0xE1, 0xEC, 3, 0x80, 0xBF},
    {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF}, {0xF0, 0xF0, 4, 0x90, 0xBF},
    {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F},
};

}  // namespace

Utf8Unit ReadUtf8(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (at(0) < 0x80) return {.bytes = 1, .valid = true};
  for (const LeadByte& lead : kLeadBytes) {
    if (at(0) < lead.first || at(0) > lead.last) continue;
    for (size_t i = 1; i < lead.length; ++i) {
      if (i == bytes.size()) return {.bytes = i, .incomplete = true};
      const uint8_t min = i == 1 ? lead.second_min : 0x80;
      const uint8_t max = i == 1 ? lead.second_max : 0xBF;
      if (at(i) < min || at(i) > max) return {.bytes = i};
    }
    return {.bytes = lead.length, .valid = true};
  }
  return {.bytes = 1};
}

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Unit unit = ReadUtf8(bytes);
    if (!unit.valid) return false;
    bytes.remove_prefix(unit.bytes);
  }
  return true;
}

std::string Utf8Stream::Append(std::string_view bytes) {
  held_ += bytes;
  std::string text;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Unit unit = ReadUtf8(rest);
    if (unit.incomplete) break;
    text += unit.valid ? rest.substr(0, unit.bytes) : kReplacementCharacter;
    rest.remove_prefix(unit.bytes);
  }
  held_ = std::string(rest);
  return text;
}

std::string Utf8Stream::Flush() {
  std::string text(held_.empty() ? std::string_view() : kReplacementCharacter);
  held_.clear();
  return text;
}

}  // namespace baton::engine
