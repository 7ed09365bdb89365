#include "cli/json_lines.h"

#include <iostream>

#include "cli/output.h"
#include "engine/base/json.h"
#include "engine/base/quote.h"

namespace baton::cli {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

absl::StatusOr<nlohmann::ordered_json> AnswerLine(std::string_view line,
                                                  const JsonLineFunction& answer) {
  ASSIGN_OR_RETURN(const nlohmann::ordered_json object, engine::ParseJson(line, "not JSON"));
  if (!object.is_object()) return InvalidArgument("got {}, expected an object", object.type_name());
  return answer(object);
}

}  // namespace

absl::Status AnswerJsonLines(const JsonLineFunction& answer) {
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    if (line.empty()) continue;
    const auto document = AnswerLine(line, answer);
    if (!document.ok())
      return Prefixed(document.status(), fmt::format("standard input: line {}", number));
    RETURN_IF_ERROR(PrintJson(*document));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BoolField(const nlohmann::ordered_json& object, const char* key, bool absent) {
  const auto field = object.find(key);
  if (field == object.end() || field->is_null()) return absent;
  if (!field->is_boolean())
    return InvalidArgument("{}: got {}, expected true or false", key, field->type_name());
  return field->get<bool>();
}

absl::StatusOr<std::string> StringField(const nlohmann::ordered_json& object, const char* key) {
  const auto field = object.find(key);
  if (field == object.end()) return InvalidArgument("{}: missing", key);
  if (!field->is_string())
    return InvalidArgument("{}: got {}, expected a string", key, field->type_name());
  return field->get<std::string>();
}

std::string ToHex(std::string_view bytes) {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const unsigned char c : bytes) {
    hex += kHexDigits[c >> 4];
    hex += kHexDigits[c & 15];
  }
  return hex;
}

absl::StatusOr<std::string> FromHex(std::string_view hex) {
  if (hex.size() % 2 != 0) return InvalidArgument("hex: an odd number of digits");
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexValue(hex[i]), low = HexValue(hex[i + 1]);
    if (high < 0 || low < 0)
      return InvalidArgument("hex: got {}, expected two digits", engine::Named(hex.substr(i, 2)));
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = engine::Utf8SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace baton::cli
