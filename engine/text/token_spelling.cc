#include "engine/text/token_spelling.h"

#include <array>
#include <charconv>
#include <system_error>

namespace baton::engine {
namespace {

// Printable bytes stand for themselves (as Latin-1), the others for U+0100, U+0101, … in order.
constexpr int kOthers = 68;
struct Tables {
  std::array<uint16_t, 256> character_of{};      // code point of a byte
  std::array<int16_t, 256 + kOthers> byte_of{};  // -1: none
};
constexpr Tables MakeTables() {
  Tables tables;
  tables.byte_of.fill(-1);
  uint16_t next_other = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    tables.character_of[byte] = printable ? static_cast<uint16_t>(byte) : next_other++;
    tables.byte_of[tables.character_of[byte]] = static_cast<int16_t>(byte);
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

}  // namespace

void AppendByteCharacter(uint8_t byte, std::string& text) {
  const uint16_t character = kTables.character_of[byte];
  if (character < 0x80) {
    text.push_back(static_cast<char>(character));
  } else {  // all are below U+0800: two bytes
    text.push_back(static_cast<char>(0xC0 | (character >> 6)));
    text.push_back(static_cast<char>(0x80 | (character & 0x3F)));
  }
}

std::string WriteBytesAsCharacters(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) AppendByteCharacter(static_cast<uint8_t>(byte), text);
  return text;
}

std::string ReadCharactersAsBytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const uint8_t lead = static_cast<uint8_t>(text[i]);
    size_t length = 1;
    unsigned character = lead;
    if (lead >= 0xC0 && lead < 0xE0 && i + 1 < text.size()) {
      length = 2;
      character = (lead & 0x1Fu) << 6 | (static_cast<uint8_t>(text[i + 1]) & 0x3Fu);
    }
    const bool known = (length == 2 || lead < 0x80) && character < kTables.byte_of.size() &&
                       kTables.byte_of[character] >= 0;
    if (known) {
      bytes.push_back(static_cast<char>(kTables.byte_of[character]));
    } else {
      bytes.append(text.substr(i, length));
    }
    i += length;
  }
  return bytes;
}

std::string EscapeSpaces(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() * 3 / 2);
  for (const char c : text) {
    if (c == ' ') {
      escaped += kEscapedSpace;
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

std::string UnescapeSpaces(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const bool space = text.starts_with(kEscapedSpace);
    plain.push_back(space ? ' ' : text[0]);
    text.remove_prefix(space ? kEscapedSpace.size() : 1);
  }
  return plain;
}

std::string ReadByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return {};
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  if (error != std::errc() || end != text.data() + 5) return {};
  return std::string(1, static_cast<char>(byte));
}

}  // namespace baton::engine
