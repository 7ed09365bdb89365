#include "engine/text/jinja/lexer.h"

#include <absl/strings/ascii.h>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

// Longest first.
constexpr std::array<std::string_view, 26> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

bool IsNameByte(char c) {
  return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// \r\n and \r become \n; one newline at the very end goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) RETURN_IF_ERROR(LexText());
    begin_ = at_;
    Push(Token::Kind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool LooksAt(std::string_view literal) const { return rest().starts_with(literal); }
  bool Accept(std::string_view literal) {
    if (!LooksAt(literal)) return false;
    at_ += literal.size();
    return true;
  }
  void SkipSpace() {
    while (at_ < source_.size()) {
      const CodePoint c = DecodeAt(source_, at_);
      if (!IsSpace(c.value)) return;
      at_ += c.size;
    }
  }

  Position PositionOf(size_t offset) {
    // Offsets only grow, so each byte is looked at once.
    for (; counted_ < offset; ++counted_) {
      if (source_[counted_] == '\n') {
        ++position_.line;
        position_.column = 1;
      } else if ((source_[counted_] & 0xC0) != 0x80) {
        ++position_.column;
      }
    }
    return position_;
  }
  Token& Push(Token::Kind kind, std::string text = "") {
    tokens_.push_back({.kind = kind, .text = std::move(text), .position = PositionOf(begin_)});
    return tokens_.back();
  }
  absl::Status Error(std::string_view message) { return SyntaxError(PositionOf(begin_), message); }

  // Text up to the next {{, {% or {#, then what is in there.
  absl::Status LexText() {
    size_t open = at_;
    do {
      open = source_.find('{', open);
    } while (open != std::string::npos && open + 1 < source_.size() &&
             std::string_view("{%#").find(source_[open + 1]) == std::string_view::npos && ++open);
    if (open == std::string::npos || open + 1 >= source_.size()) {
      begin_ = at_;
      Push(Token::Kind::kText, source_.substr(at_));
      at_ = source_.size();
      return absl::OkStatus();
    }
    const size_t text_begin = at_;
    const char type = source_[open + 1];
    at_ = open + 2;
    const char sign = LooksAt("-") || LooksAt("+") ? source_[at_++] : '\0';
    PushText(text_begin, open, sign, type != '{');
    begin_ = open;
    if (type == '#') return SkipComment();
    if (type == '{') return LexOutput();
    if (AcceptRaw()) return LexRaw();
    Push(Token::Kind::kBlockBegin);
    return LexTag("%}", Token::Kind::kBlockEnd, true);
  }

  void PushText(size_t begin, size_t end, char sign, bool is_block) {
    std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') {
      text = StripRight(text);
    } else if (sign != '+' && is_block) {
      const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line > 0 || line_starting_) && StripRight(text.substr(line)).empty()) {
        text = text.substr(0, line);
      }
    }
    begin_ = begin;
    if (!text.empty()) Push(Token::Kind::kText, std::string(text));
  }

  static std::string_view StripRight(std::string_view text) {
    while (!text.empty()) {
      size_t last = text.size() - 1;
      while (last > 0 && (text[last] & 0xC0) == 0x80 && text.size() - last < 4) --last;
      if (!IsSpace(DecodeAt(text, last).value)) break;
      text = text.substr(0, last);
    }
    return text;
  }

  // The end of a tag, with what goes with it. A "+" keeps the newline after a block.
  bool AcceptEnd(std::string_view end, bool is_block) {
    const size_t start = at_;
    if (Accept("-")) {
      if (Accept(end)) {
        SkipSpace();
        return EndedAt(start);
      }
      at_ = start;
      return false;
    }
    if (is_block && Accept("+")) {
      if (Accept(end)) return EndedAt(start);
      at_ = start;
      return false;
    }
    if (!Accept(end)) return false;
    if (is_block) Accept("\n");
    return EndedAt(start);
  }
  bool EndedAt(size_t start) {
    line_starting_ = at_ > start && source_[at_ - 1] == '\n';
    return true;
  }

  absl::Status SkipComment() {
    for (; at_ < source_.size(); ++at_) {
      if (AcceptEnd("#}", true)) return absl::OkStatus();
    }
    return Error("Missing end of comment tag");
  }

  absl::Status LexOutput() {
    Push(Token::Kind::kOutputBegin);
    return LexTag("}}", Token::Kind::kOutputEnd, false);
  }

  // After "{%": "raw %}". Leaves everything where it was if it is another tag.
  bool AcceptRaw() {
    const size_t start = at_;
    SkipSpace();
    if (Accept("raw")) {
      SkipSpace();
      if (Accept("-%}")) {
        SkipSpace();
        return true;
      }
      if (Accept("%}")) return true;
    }
    at_ = start;
    return false;
  }

  absl::Status LexRaw() {
    line_starting_ = source_[at_ - 1] == '\n';
    const size_t text_begin = at_;
    for (size_t open = at_; (open = source_.find("{%", open)) != std::string::npos; ++open) {
      at_ = open + 2;
      const char sign = LooksAt("-") || LooksAt("+") ? source_[at_++] : '\0';
      SkipSpace();
      if (!Accept("endraw")) continue;
      SkipSpace();
      const bool line_starting = line_starting_;
      if (!AcceptEnd("%}", true)) continue;
      const bool ends_line = std::exchange(line_starting_, line_starting);
      PushText(text_begin, open, sign, true);
      line_starting_ = ends_line;
      return absl::OkStatus();
    }
    return Error("Missing end of raw directive");
  }

  absl::Status LexTag(std::string_view end, Token::Kind end_kind, bool is_block) {
    std::string brackets;  // the closing ones that are due
    while (true) {
      SkipSpace();
      begin_ = at_;
      if (at_ >= source_.size()) return Error("unexpected end of template");
      if (brackets.empty() && AcceptEnd(end, is_block)) {
        Push(end_kind);
        return absl::OkStatus();
      }
      const char c = source_[at_];
      if (absl::ascii_isdigit(c)) {
        RETURN_IF_ERROR(LexNumber());
      } else if (IsNameByte(c)) {
        LexName();
      } else if (c == '"' || c == '\'') {
        RETURN_IF_ERROR(LexString(c));
      } else {
        RETURN_IF_ERROR(LexOperator(brackets));
      }
    }
  }

  void LexName() {
    while (at_ < source_.size() && IsNameByte(source_[at_])) ++at_;
    Push(Token::Kind::kName, source_.substr(begin_, at_ - begin_));
  }

  absl::Status LexOperator(std::string& brackets) {
    for (std::string_view op : kOperators) {
      if (!Accept(op)) continue;
      if (op == "(") brackets += ')';
      if (op == "[") brackets += ']';
      if (op == "{") brackets += '}';
      if (op == ")" || op == "]" || op == "}") {
        if (brackets.empty()) return Error(fmt::format("unexpected '{}'", op));
        if (brackets.back() != op[0]) {
          return Error(fmt::format("unexpected '{}', expected '{}'", op, brackets.back()));
        }
        brackets.pop_back();
      }
      Push(Token::Kind::kOperator, std::string(op));
      return absl::OkStatus();
    }
    return Error(
        fmt::format("unexpected char '{}'", rest().substr(0, DecodeAt(source_, at_).size)));
  }

  // Decimal digits with single underscores between them, from `at`; where they end.
  size_t DigitsEnd(size_t at) const {
    const auto is_decimal = [&](size_t i) {
      return i < source_.size() && absl::ascii_isdigit(source_[i]);
    };
    if (!is_decimal(at)) return at;
    while (is_decimal(at) || (at < source_.size() && source_[at] == '_' && is_decimal(at + 1)))
      ++at;
    return at;
  }

  absl::Status LexNumber() {
    const size_t whole_end = DigitsEnd(at_);
    size_t end = whole_end;
    const auto byte = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot && byte(end) == '.') {
      const size_t fraction_end = DigitsEnd(end + 1);
      if (fraction_end > end + 1) end = fraction_end;
    }
    if (!after_dot && (byte(end) | 0x20) == 'e') {
      const size_t sign = byte(end + 1) == '+' || byte(end + 1) == '-' ? 1 : 0;
      const size_t exponent_end = DigitsEnd(end + 1 + sign);
      if (exponent_end > end + 1 + sign) end = exponent_end;
    }
    if (end > whole_end) return PushFloat(end);
    return LexInteger(whole_end);
  }

  std::string WithoutUnderscores(size_t end) const {
    std::string digits;
    for (size_t i = at_; i < end; ++i) {
      if (source_[i] != '_') digits += source_[i];
    }
    return digits;
  }

  absl::Status PushFloat(size_t end) {
    const std::string digits = WithoutUnderscores(end);
    double number = 0;
    // Out of range leaves 0: strtod gives Python's inf or 0.
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) {
      number = std::strtod(digits.c_str(), nullptr);
    }
    at_ = end;
    Push(Token::Kind::kFloat).number = number;
    return absl::OkStatus();
  }

  absl::Status LexInteger(size_t decimal_end) {
    int base = 10;
    size_t end = decimal_end;
    const char mark = at_ + 1 < source_.size() ? source_[at_ + 1] | 0x20 : '\0';
    if (source_[at_] == '0') {
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      if (base == 10) {  // a leading zero stands alone
        end = at_ + 1;
        while (end < decimal_end && (source_[end] == '0' || source_[end] == '_')) ++end;
      } else {
        at_ += 2;
        end = at_;
        while (end < source_.size() && std::isxdigit(static_cast<unsigned char>(source_[end])))
          ++end;
      }
    }
    const std::string digits = WithoutUnderscores(end);
    int64_t integer = 0;
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), integer, base);
    if (error == std::errc::result_out_of_range) return Error("integer is out of range");
    if (error != std::errc() || stop != digits.data() + digits.size()) return Error("bad number");
    at_ = end;
    Push(Token::Kind::kInteger).integer = integer;
    return absl::OkStatus();
  }

  absl::Status LexString(char quote) {
    std::string text;
    for (++at_; at_ < source_.size() && source_[at_] != quote;) {
      if (source_[at_] != '\\') {
        text += source_[at_++];
      } else {
        RETURN_IF_ERROR(LexEscape(text));
      }
    }
    if (at_ >= source_.size()) return Error(fmt::format("unexpected char '{}'", quote));
    ++at_;
    Push(Token::Kind::kString, std::move(text));
    return absl::OkStatus();
  }

  absl::Status LexEscape(std::string& text) {
    ++at_;
    if (at_ >= source_.size()) return Error("unexpected end of template");
    const char c = source_[at_++];
    static constexpr std::string_view kEscapes = "abfnrtv\\'\"", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t i = kEscapes.find(c); i != std::string_view::npos) {
      text += kMeanings[i];
      return absl::OkStatus();
    }
    if (c == '\n') return absl::OkStatus();
    if (c >= '0' && c <= '7') {
      --at_;
      return LexCodePoint(3, 8, text);
    }
    if (c == 'x') return LexCodePoint(2, 16, text);
    if (c == 'u') return LexCodePoint(4, 16, text);
    if (c == 'U') return LexCodePoint(8, 16, text);
    text += '\\';
    text += c;
    return absl::OkStatus();
  }

  absl::Status LexCodePoint(size_t digits, int base, std::string& text) {
    const std::string_view rest_of_string = rest().substr(0, digits);
    uint32_t code_point = 0;
    const auto [stop, error] = std::from_chars(
        rest_of_string.data(), rest_of_string.data() + rest_of_string.size(), code_point, base);
    const size_t size = stop - rest_of_string.data();
    if (error != std::errc() || (base == 16 && size < digits) || code_point > 0x10FFFF) {
      return Error("bad escape in a string");
    }
    at_ += size;
    AppendUtf8(code_point, text);
    return absl::OkStatus();
  }

  const std::string source_;
  size_t at_ = 0;
  size_t begin_ = 0;  // of the token at work
  bool line_starting_ = true;
  size_t counted_ = 0;
  Position position_;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(NormalizeNewlines(source)).Run();
}

absl::Status SyntaxError(Position position, std::string_view message) {
  return InvalidArgument("chat template: line {}, column {}: {}", position.line, position.column,
                         message);
}

}  // namespace baton::engine::jinja
