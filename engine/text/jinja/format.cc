#include "engine/text/jinja/format.h"

#include <absl/strings/ascii.h>
#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxPrecision = 500;

// Python's format specification: [[fill]align][sign][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // - + or space
  bool alternate = false;
  int64_t width = 0;
  char grouping = '\0';
  std::optional<int64_t> precision;
  char type = '\0';
};

absl::StatusOr<int64_t> TakeNumber(std::string_view& text, int64_t limit) {
  int64_t number = 0;
  while (!text.empty() && absl::ascii_isdigit(text[0])) {
    number = number * 10 + (text[0] - '0');
    if (number > limit) return ResourceExhausted("format: {} at most", limit);
    text.remove_prefix(1);
  }
  return number;
}

absl::StatusOr<Spec> ParseSpec(std::string_view text) {
  constexpr std::string_view kAligns = "<>^=";
  const auto take_if = [&](std::string_view any_of) {
    if (text.empty() || any_of.find(text[0]) == std::string_view::npos) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  Spec spec;
  const size_t fill = text.empty() ? 0 : DecodeAt(text, 0).size;
  if (fill > 0 && fill < text.size() && kAligns.find(text[fill]) != std::string_view::npos) {
    spec.fill = text.substr(0, fill);
    text.remove_prefix(fill);
  }
  spec.align = take_if(kAligns);
  if (const char sign = take_if("+- ")) spec.sign = sign;
  spec.alternate = take_if("#") != '\0';
  if (take_if("0") != '\0') {
    if (spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  ASSIGN_OR_RETURN(spec.width, TakeNumber(text, kMaxWidth));
  spec.grouping = take_if(",_");
  if (take_if(".") != '\0') {
    if (text.empty() || !absl::ascii_isdigit(text[0]))
      return InvalidArgument("Format specifier missing precision");
    ASSIGN_OR_RETURN(spec.precision, TakeNumber(text, kMaxWidth));
  }
  if (!text.empty()) {
    spec.type = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty()) return InvalidArgument("Invalid format specifier");
  return spec;
}

// Digits in groups of `size`: thousands, or four for the other bases.
std::string Grouped(std::string_view digits, char separator, size_t size) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

Text Padded(Text text, const Spec& spec, char default_align, size_t sign_size = 0) {
  const int64_t missing = spec.width - static_cast<int64_t>(CountCodePoints(text.view()));
  if (missing <= 0) return text;
  const auto fill = [&](int64_t count) {
    std::string out;
    for (int64_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  const char align = spec.align != '\0' ? spec.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const size_t inside = align == '=' ? sign_size : 0;
  Text out = text.Slice(0, inside);
  out.Append(fill(left)).Append(text, inside, text.size());
  return out.Append(fill(missing - left));
}

absl::StatusOr<Text> FormatString(Text text, const Spec& spec) {
  if (spec.type != '\0' && spec.type != 's') {
    return InvalidArgument("Unknown format code '{}' for object of type 'str'", spec.type);
  }
  if (spec.align == '=' && spec.fill != "0") {
    return InvalidArgument("'=' alignment not allowed in string format specifier");
  }
  if (spec.precision.has_value()) text = text.Slice(0, OffsetOf(text.view(), *spec.precision));
  return Padded(std::move(text), spec, '<');
}

std::string SignOf(bool negative, const Spec& spec) {
  return negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

absl::StatusOr<Text> FormatInteger(int64_t value, const Spec& spec) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : value;
  std::string prefix = SignOf(value < 0, spec), digits;
  const bool decimal = spec.type == '\0' || spec.type == 'd' || spec.type == 'n';
  switch (spec.type) {
    case '\0':
    case 'd':
    case 'n':
      digits = fmt::format("{}", magnitude);
      break;
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      break;
    case 'c': {
      if (value < 0 || value > 0x10FFFF) return InvalidArgument("%c arg not in range(0x110000)");
      std::string character;
      AppendUtf8(static_cast<char32_t>(value), character);
      return Padded(Text(character), spec, '<');
    }
    default:
      return InvalidArgument("Unknown format code '{}' for object of type 'int'", spec.type);
  }
  if (spec.alternate && !decimal) prefix += fmt::format("0{}", spec.type);
  if (spec.grouping != '\0') digits = Grouped(digits, spec.grouping, decimal ? 3 : 4);
  return Padded(Text(prefix + digits), spec, '>', prefix.size());
}

// "1e+06" -> as Python: two digits of exponent at least; fmt agrees.
std::string FloatDigits(double magnitude, const Spec& spec, int precision) {
  const bool alternate = spec.alternate;
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'f':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'F':
      return fmt::format("{:.{}F}", magnitude, precision);
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 'G':
      return fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
    default:
      break;
  }
  return alternate ? fmt::format("{:#.{}g}", magnitude, std::max(precision, 1))
                   : fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
}

absl::StatusOr<Text> FormatFloat(double value, const Spec& spec) {
  if (std::string_view("\0eEfFgGn%", 9).find(spec.type) == std::string_view::npos) {
    return InvalidArgument("Unknown format code '{}' for object of type 'float'", spec.type);
  }
  const int64_t precision = spec.precision.value_or(6);
  if (precision > kMaxPrecision)
    return ResourceExhausted("format: a precision of {} at most", kMaxPrecision);
  const bool negative = std::signbit(value) && !std::isnan(value);
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
    if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') {
      for (char& c : digits) c = static_cast<char>(c - 32);
    }
    if (spec.type == '%') digits += '%';
  } else if (spec.type == '\0' && !spec.precision.has_value()) {
    digits = FloatRepr(std::fabs(value));
  } else {
    digits = FloatDigits(std::fabs(value), spec, static_cast<int>(precision));
    if (spec.type == '\0' && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  }
  if (spec.grouping != '\0') {
    const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = Grouped(digits.substr(0, whole), spec.grouping, 3) + digits.substr(whole);
  }
  const std::string sign = SignOf(negative, spec);
  return Padded(Text(sign + digits), spec, '>', sign.size());
}

absl::StatusOr<Text> FormatValue(Budget& budget, const Value& value, const Spec& spec) {
  RETURN_IF_ERROR(budget.Bytes(static_cast<size_t>(spec.width) * spec.fill.size()));
  const bool is_float_type = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (value.is_bool() && spec.type == '\0') {
    ASSIGN_OR_RETURN(Text text, ToText(budget, value));
    return FormatString(std::move(text), spec);
  }
  if (value.is_float() || (value.is_integral() && is_float_type)) {
    return FormatFloat(value.number(), spec);
  }
  if (value.is_integral()) return FormatInteger(value.integer(), spec);
  ASSIGN_OR_RETURN(Text text, ToText(budget, value));
  return FormatString(std::move(text), spec);
}

// "%": one pass over the format.
class PercentFormatter {
 public:
  PercentFormatter(Budget& budget, const Text& format, const Value& values)
      : budget_(budget), format_(format), values_(values), rest_(format.view()) {
    if (values.is_sequence() && values.sequence().is_tuple()) {
      positional_ = values.sequence().items;
    } else {
      positional_ = {values};
    }
  }

  absl::StatusOr<Value> Run() {
    while (true) {
      const size_t percent = std::min(rest_.find('%'), rest_.size());
      RETURN_IF_ERROR(budget_.Bytes(percent));
      const size_t at = format_.size() - rest_.size();
      out_.Append(format_, at, at + percent);
      rest_.remove_prefix(percent);
      if (rest_.empty()) break;
      RETURN_IF_ERROR(Convert());
    }
    const bool all_used = used_ == positional_.size() || by_name_ || values_.is_dict();
    if (!all_used) return InvalidArgument("not all arguments converted during string formatting");
    return Value(std::move(out_));
  }

 private:
  absl::StatusOr<Value> NextValue() {
    if (used_ >= positional_.size())
      return InvalidArgument("not enough arguments for format string");
    return positional_[used_++];
  }

  absl::StatusOr<Value> NamedValue() {
    const size_t end = rest_.find(')');
    if (end == std::string_view::npos) return InvalidArgument("incomplete format key");
    const std::string_view name = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    if (!values_.is_dict()) return InvalidArgument("format requires a mapping");
    const Value* value = values_.dict().Find(name);
    if (value == nullptr) return InvalidArgument("no value for the format key '{}'", name);
    by_name_ = true;
    return *value;
  }

  absl::StatusOr<int64_t> TakeSize() {
    if (rest_.empty() || rest_[0] != '*') return TakeNumber(rest_, kMaxWidth);
    rest_.remove_prefix(1);
    ASSIGN_OR_RETURN(const Value value, NextValue());
    ASSIGN_OR_RETURN(const int64_t size, ToInteger(value));
    if (std::abs(size) > kMaxWidth) return ResourceExhausted("format: {} at most", kMaxWidth);
    return size;
  }

  absl::Status Convert() {
    rest_.remove_prefix(1);
    Value value;
    if (rest_.starts_with('(')) {
      ASSIGN_OR_RETURN(value, NamedValue());
    }
    Spec spec;
    bool zero = false, left = false;
    for (; !rest_.empty(); rest_.remove_prefix(1)) {
      if (rest_[0] == '-')
        left = true;
      else if (rest_[0] == '0')
        zero = true;
      else if (rest_[0] == '+')
        spec.sign = '+';
      else if (rest_[0] == ' ')
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (rest_[0] == '#')
        spec.alternate = true;
      else
        break;
    }
    ASSIGN_OR_RETURN(spec.width, TakeSize());
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      ASSIGN_OR_RETURN(const int64_t precision, TakeSize());
      spec.precision = std::max<int64_t>(precision, 0);
    }
    while (!rest_.empty() && std::string_view("hlL").find(rest_[0]) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) return InvalidArgument("incomplete format");
    spec.type = rest_[0];
    rest_.remove_prefix(1);
    if (spec.type == '%') {
      out_.Append("%");
      return absl::OkStatus();
    }
    if (value.is_missing()) {
      ASSIGN_OR_RETURN(value, NextValue());
    }
    spec.align = left ? '<' : '>';
    if (zero && !left && std::string_view("srac").find(spec.type) == std::string_view::npos) {
      spec.fill = "0";
      spec.align = '=';
    }
    ASSIGN_OR_RETURN(const Text text, Converted(value, spec));
    RETURN_IF_ERROR(budget_.Bytes(text.size()));
    out_.Append(text);
    return absl::OkStatus();
  }

  absl::StatusOr<Text> Converted(const Value& value, Spec spec) {
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      ASSIGN_OR_RETURN(Text text, spec.type == 's' ? ToText(budget_, value) : Repr(budget_, value));
      spec.type = 's';
      RETURN_IF_ERROR(budget_.Bytes(static_cast<size_t>(spec.width)));
      return FormatString(std::move(text), spec);
    }
    if (spec.type == 'c' && value.is_string()) {
      if (CountCodePoints(value.view()) != 1) return InvalidArgument("%c requires int or char");
      spec.type = 's';
      return FormatString(value.text(), spec);
    }
    if (value.is_undefined()) return InvalidArgument("{}", value.undefined_message());
    if (std::string_view("diuxXoeEfFgGc").find(spec.type) == std::string_view::npos) {
      return InvalidArgument("unsupported format character '{}'", spec.type);
    }
    if (!value.is_number()) {
      return InvalidArgument("%{} format: a real number is required, not {}", spec.type,
                             value.type_name());
    }
    if (std::string_view("diuxXoc").find(spec.type) == std::string_view::npos) {
      return FormatValue(budget_, Value(value.number()), spec);
    }
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (value.is_float() && !decimal) {
      return InvalidArgument("%{} format: an integer is required, not float", spec.type);
    }
    if (decimal) spec.type = 'd';
    int64_t integer = 0;
    if (value.is_float()) {
      if (!(std::fabs(value.number()) < 9.2e18))
        return InvalidArgument("cannot convert float to integer");
      integer = static_cast<int64_t>(value.number());
    } else {
      integer = value.integer();
    }
    spec.precision.reset();
    return FormatValue(budget_, Value(integer), spec);
  }

  Budget& budget_;
  const Text& format_;
  const Value& values_;
  std::string_view rest_;
  Values positional_;
  size_t used_ = 0;
  bool by_name_ = false;
  Text out_;
};

// "{}": fields may hold fields in their specification, one level deep.
class BracesFormatter {
 public:
  BracesFormatter(Interpreter& run, const Arguments& arguments)
      : run_(run), arguments_(arguments) {}

  absl::StatusOr<Text> Run(const Text& format, int nesting) {
    if (nesting > 2) return InvalidArgument("Max string recursion exceeded");
    Text out;
    const std::string_view text = format.view();
    for (size_t at = 0; at < text.size();) {
      const size_t brace = std::min(text.find_first_of("{}", at), text.size());
      RETURN_IF_ERROR(run_.budget().Bytes(brace - at));
      out.Append(format, at, brace);
      if (brace == text.size()) break;
      if (text.substr(brace, 2) == "{{" || text.substr(brace, 2) == "}}") {
        out.Append(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (text[brace] == '}') return InvalidArgument("Single '}}' encountered in format string");
      size_t end = brace + 1;
      for (int depth = 1; end < text.size(); ++end) {
        if (text[end] == '{') ++depth;
        if (text[end] == '}' && --depth == 0) break;
      }
      if (end == text.size()) return InvalidArgument("expected '}}' before end of string");
      ASSIGN_OR_RETURN(const Text field, Field(format.Slice(brace + 1, end), nesting));
      RETURN_IF_ERROR(run_.budget().Bytes(field.size()));
      out.Append(field);
      at = end + 1;
    }
    return out;
  }

 private:
  absl::StatusOr<Text> Field(const Text& field, int nesting) {
    const std::string_view text = field.view();
    const size_t colon = std::min(text.find(':'), text.size());
    const size_t bang = std::min(text.find('!'), colon);
    ASSIGN_OR_RETURN(Value value, Find(text.substr(0, bang)));
    if (bang < colon) {
      const std::string_view conversion = text.substr(bang + 1, colon - bang - 1);
      if (conversion != "r" && conversion != "s") {
        return InvalidArgument("Unknown conversion specifier '{}'", conversion);
      }
      ASSIGN_OR_RETURN(Text converted,
                       conversion == "r" ? Repr(run_.budget(), value) : run_.Str(value));
      value = Value(std::move(converted));
    }
    if (colon == text.size()) return FormatValue(run_.budget(), value, Spec{});
    ASSIGN_OR_RETURN(const Text spec_text, Run(field.Slice(colon + 1, field.size()), nesting + 1));
    ASSIGN_OR_RETURN(const Spec spec, ParseSpec(spec_text.view()));
    return FormatValue(run_.budget(), value, spec);
  }

  // name, index or nothing, then .attribute and [item].
  absl::StatusOr<Value> Find(std::string_view path) {
    const size_t name_end = std::min(path.find_first_of(".["), path.size());
    ASSIGN_OR_RETURN(Value value, Argument(path.substr(0, name_end)));
    path.remove_prefix(name_end);
    while (!path.empty()) {
      const bool is_item = path[0] == '[';
      const size_t end =
          std::min(is_item ? path.find(']') : path.find_first_of(".[", 1), path.size());
      const std::string_view part = path.substr(1, end - 1);
      if (part.empty()) return InvalidArgument("Empty attribute in format string");
      if (is_item && std::all_of(part.begin(), part.end(), absl::ascii_isdigit)) {
        std::string_view digits = part;
        ASSIGN_OR_RETURN(const int64_t index, TakeNumber(digits, kMaxWidth));
        ASSIGN_OR_RETURN(value, run_.Item(value, Value(index)));
      } else if (is_item) {
        ASSIGN_OR_RETURN(value, run_.Item(value, Value::String(part)));
      } else {
        ASSIGN_OR_RETURN(value, run_.Attribute(value, part));
      }
      if (value.is_undefined()) return InvalidArgument("{}", value.undefined_message());
      path.remove_prefix(std::min(end + (is_item ? 1 : 0), path.size()));
    }
    return value;
  }

  absl::StatusOr<Value> Argument(std::string_view name) {
    if (name.empty() || std::all_of(name.begin(), name.end(), absl::ascii_isdigit)) {
      int64_t index = 0;
      if (name.empty()) {
        index = static_cast<int64_t>(next_++);
      } else {
        ASSIGN_OR_RETURN(index, TakeNumber(name, kMaxWidth));
      }
      if (static_cast<size_t>(index) < arguments_.positional.size()) {
        return arguments_.positional[index];
      }
      return InvalidArgument("Replacement index {} out of range for positional args tuple", index);
    }
    for (const auto& [known, value] : arguments_.keyword) {
      if (known == name) return value;
    }
    return InvalidArgument("format() got no argument '{}'", name);
  }

  Interpreter& run_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<Value> FormatPercent(Budget& budget, const Text& format, const Value& values) {
  return PercentFormatter(budget, format, values).Run();
}

absl::StatusOr<Value> FormatBraces(Interpreter& run, const Text& format,
                                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(Text text, BracesFormatter(run, arguments).Run(format, 1));
  return Value(std::move(text));
}

}  // namespace baton::engine::jinja
