// How vocabularies write the bytes of their tokens as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::engine {

enum class TokenSpelling : uint8_t {
  kByteCharacters,  // each byte is one printable character: " " is "Ġ"
  kEscapedSpaces,   // UTF-8 with "▁" for a space; bytes have tokens of their own, "<0x0A>"
};

// kByteCharacters. Source: bytes_to_unicode in the encoder.py of OpenAI's gpt-2 repository.
void AppendByteCharacter(uint8_t byte, std::string& text);
std::string WriteBytesAsCharacters(std::string_view bytes);
// Characters that stand for no byte are taken as they are.
std::string ReadCharactersAsBytes(std::string_view text);

// kEscapedSpaces.
inline constexpr std::string_view kEscapedSpace = "▁";
std::string EscapeSpaces(std::string_view text);
std::string UnescapeSpaces(std::string_view text);
// The byte that "<0x0A>" names; "" for any other text.
std::string ReadByteToken(std::string_view text);

}  // namespace baton::engine
