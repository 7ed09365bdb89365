#include "engine/text/jinja/strings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

using Spans = std::vector<Text::Range>;

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

// Start of the character that ends before `end`.
size_t CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (text[begin] & 0xC0) == 0x80 && end - begin < 4) --begin;
  return begin + DecodeAt(text, begin).size == end ? begin : end - 1;
}

absl::StatusOr<Values> Pieces(Budget& budget, const Text& text, const Spans& spans) {
  RETURN_IF_ERROR(budget.Bytes(text.size() + spans.size() * (sizeof(Value) + sizeof(Text))));
  Values pieces;
  for (const Text::Range& span : spans) pieces.push_back(Value(text.Slice(span.begin, span.end)));
  return pieces;
}

Spans WordSpans(std::string_view text) {
  Spans words;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text, i);
    const bool space = IsSpace(c.value);
    if (!space && !in_word) words.push_back({i, i});
    i += c.size;
    if (!space) words.back().end = i;
    in_word = !space;
  }
  return words;
}

// Keeps `count` splits: what is beyond stays one piece with everything between.
void LimitSplits(Spans& spans, int64_t count, bool from_right) {
  if (count < 0 || spans.size() <= static_cast<size_t>(count) + 1) return;
  const size_t excess = spans.size() - 1 - static_cast<size_t>(count);
  if (from_right) {
    spans[excess].begin = spans[0].begin;
    spans.erase(spans.begin(), spans.begin() + static_cast<ptrdiff_t>(excess));
  } else {
    spans[count].end = spans.back().end;
    spans.resize(static_cast<size_t>(count) + 1);
  }
}

// Python keeps the white space at the open end of a limited split by white space.
void LimitWords(Spans& words, std::string_view text, int64_t count, bool from_right) {
  if (count < 0 || words.size() <= static_cast<size_t>(count)) return;
  const bool limited = words.size() > static_cast<size_t>(count);
  LimitSplits(words, count, from_right);
  if (!limited || words.size() != static_cast<size_t>(count) + 1) return;
  if (from_right) {
    words.front().begin = 0;
  } else {
    words.back().end = text.size();
  }
}

Spans SeparatedSpans(std::string_view text, std::string_view separator, int64_t count,
                     bool from_right) {
  Spans spans;
  if (from_right) {
    // From the right, since "aaa" by "aa" depends on the side.
    size_t end = text.size();
    while (count-- != 0) {
      if (end < separator.size()) break;
      const size_t found = text.substr(0, end).rfind(separator);
      if (found == std::string_view::npos) break;
      spans.push_back({found + separator.size(), end});
      end = found;
    }
    spans.push_back({0, end});
    std::reverse(spans.begin(), spans.end());
    return spans;
  }
  size_t begin = 0;
  while (count-- != 0) {
    const size_t found = text.find(separator, begin);
    if (found == std::string_view::npos) break;
    spans.push_back({begin, found});
    begin = found + separator.size();
  }
  spans.push_back({begin, text.size()});
  return spans;
}

template <typename Convert>
Text MapPieces(const Text& text, Convert convert) {
  Text out;
  text.ForEachPiece([&](std::string_view piece, bool data) { out.Append(convert(piece), data); });
  return out;
}

}  // namespace

Text Strip(const Text& text, std::optional<std::string_view> chars, Side side) {
  const std::string_view all = text.view();
  const auto goes = [&](size_t begin, size_t end) {
    if (!chars.has_value()) return IsSpace(DecodeAt(all, begin).value);
    return chars->find(all.substr(begin, end - begin)) != std::string_view::npos;
  };
  size_t begin = 0, end = all.size();
  if (side != Side::kRight) {
    while (begin < end) {
      const size_t next = begin + DecodeAt(all, begin).size;
      if (!goes(begin, next)) break;
      begin = next;
    }
  }
  if (side != Side::kLeft) {
    while (begin < end) {
      const size_t last = CharacterBefore(all, end);
      if (!goes(last, end)) break;
      end = last;
    }
  }
  return text.Slice(begin, end);
}

absl::StatusOr<Text> Replace(Budget& budget, const Text& text, std::string_view from,
                             const Text& to, int64_t count) {
  const std::string_view all = text.view();
  RETURN_IF_ERROR(budget.Bytes(all.size()));
  Text out;
  size_t done = 0, look = 0;
  while (count != 0 && look <= all.size()) {
    const size_t found = from.empty() ? look : all.find(from, look);
    if (found == std::string_view::npos) break;
    RETURN_IF_ERROR(budget.Bytes(to.size()));
    out.Append(text, done, found).Append(to);
    done = found + from.size();
    // An empty pattern matches between all characters.
    look = from.empty() ? found + (found < all.size() ? DecodeAt(all, found).size : 1) : done;
    --count;
  }
  return out.Append(text, done, all.size());
}

absl::StatusOr<Values> Split(Budget& budget, const Text& text,
                             std::optional<std::string_view> separator, int64_t count,
                             bool from_right) {
  if (separator.has_value()) {
    if (separator->empty()) return InvalidArgument("empty separator");
    return Pieces(budget, text, SeparatedSpans(text.view(), *separator, count, from_right));
  }
  Spans words = WordSpans(text.view());
  LimitWords(words, text.view(), count, from_right);
  return Pieces(budget, text, words);
}

absl::StatusOr<Values> SplitLines(Budget& budget, const Text& text, bool keep_ends) {
  const std::string_view all = text.view();
  Spans lines;
  size_t begin = 0;
  for (size_t i = 0; i < all.size();) {
    const CodePoint c = DecodeAt(all, i);
    const size_t end = i;
    i += c.size;
    if (!IsLineBreak(c.value)) continue;
    if (c.value == '\r' && i < all.size() && all[i] == '\n') ++i;
    lines.push_back({begin, keep_ends ? i : end});
    begin = i;
  }
  if (begin < all.size()) lines.push_back({begin, all.size()});
  return Pieces(budget, text, lines);
}

absl::StatusOr<Text> Join(Interpreter& run, const Text& separator, const Values& items,
                          bool strings_only) {
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      RETURN_IF_ERROR(run.budget().Bytes(separator.size()));
      out.Append(separator);
    }
    if (strings_only && !items[i].is_string()) {
      return InvalidArgument("sequence item {}: expected str instance, {} found", i,
                             items[i].type_name());
    }
    ASSIGN_OR_RETURN(const Text part, run.Str(items[i]));
    out.Append(part);
  }
  return out;
}

absl::StatusOr<Text> Pad(Budget& budget, const Text& text, int64_t width, std::string_view fill,
                         Side text_side) {
  const int64_t length = static_cast<int64_t>(CountCodePoints(text.view()));
  const int64_t missing = std::max<int64_t>(width - length, 0);
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(missing), fill.size(), &bytes)) bytes = SIZE_MAX;
  RETURN_IF_ERROR(budget.Bytes(bytes));
  // Centred as CPython does: an odd space goes left if the width is odd too.
  const int64_t left = text_side == Side::kLeft    ? 0
                       : text_side == Side::kRight ? missing
                                                   : missing / 2 + (missing & width & 1);
  const auto filling = [&](int64_t count) {
    std::string out;
    for (int64_t i = 0; i < count; ++i) out += fill;
    return out;
  };
  Text out;
  out.Append(filling(left)).Append(text);
  return out.Append(filling(missing - left));
}

Text ToUpper(const Text& text) { return MapPieces(text, Upper); }
Text ToLower(const Text& text) { return MapPieces(text, Lower); }

Text Capitalize(const Text& text) {
  const size_t first = text.empty() ? 0 : DecodeAt(text.view(), 0).size;
  Text out = ToUpper(text.Slice(0, first));
  return out.Append(ToLower(text.Slice(first, text.size())));
}

namespace {

// Without white space around it, and without single underscores between digits.
std::optional<std::string> Numeral(std::string_view text) {
  const Text stripped = Strip(Text(text), std::nullopt, Side::kBoth);
  const std::string_view all = stripped.view();
  std::string digits;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != '_') {
      digits += all[i];
      continue;
    }
    const auto is_digit = [&](size_t at) {
      return at < all.size() && std::isalnum(static_cast<unsigned char>(all[at])) != 0;
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return digits;
}

}  // namespace

std::optional<int64_t> ParseInteger(std::string_view text, int base) {
  const std::optional<std::string> numeral = Numeral(text);
  if (!numeral.has_value() || base == 1 || base < 0 || base > 36) return std::nullopt;
  std::string_view digits = *numeral;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  const char mark = digits.size() > 2 && digits[0] == '0' ? digits[1] | 0x20 : '\0';
  const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == 0 || base == marked)) {
    digits.remove_prefix(2);
    base = marked;
  }
  if (base == 0) base = 10;
  const std::string signed_digits = (negative ? "-" : "") + std::string(digits);
  if (digits.starts_with('-')) return std::nullopt;
  int64_t value = 0;
  const char* const end = signed_digits.data() + signed_digits.size();
  const auto [stop, error] = std::from_chars(signed_digits.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<double> ParseFloat(std::string_view text) {
  const std::optional<std::string> numeral = Numeral(text);
  if (!numeral.has_value()) return std::nullopt;
  std::string_view digits = *numeral;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.starts_with("+") || digits.starts_with("--") || digits.starts_with("+-"))
    return std::nullopt;
  // from_chars also reads "nan(...)", Python does not.
  if (digits.find('(') != std::string_view::npos) return std::nullopt;
  double value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (stop != end || digits.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(digits).c_str(), nullptr);
  if (error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace baton::engine::jinja
