#include "engine/base/quote.h"

#include <fmt/format.h>

#include <cstdint>

namespace baton::engine {
namespace {

// Smallest code point that needs a sequence of this length; a smaller one is an overlong form.
constexpr uint32_t kFirstOfLength[] = {0, 0, 0x80, 0x800, 0x10000};

bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

struct CodePoint {
  uint32_t value = 0;
  size_t length = 0;  // 0: not valid UTF-8
};

CodePoint Decode(std::string_view text) {
  if (text.empty()) return {};
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  uint32_t value = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return {};
    value = value << 6 | (byte & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kFirstOfLength[length] || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

}  // namespace

size_t Utf8SequenceLength(std::string_view text) { return Decode(text).length; }

std::string Escaped(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (i >= max_bytes) return out + "…";
    const CodePoint code = Decode(text.substr(i));
    if (code.length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[i]));
      ++i;
      continue;
    }
    const std::string_view sequence = text.substr(i, code.length);
    if (code.value == '\n') {
      out += "\\n";
    } else if (code.value == '\t') {
      out += "\\t";
    } else if (code.value == '\\') {
      out += "\\\\";
    } else if (IsControl(code.value)) {
      for (const char byte : sequence) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    } else {
      out += sequence;
    }
    i += code.length;
  }
  return out;
}

}  // namespace baton::engine
