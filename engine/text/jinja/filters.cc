// Filters: what follows "|".
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/text/jinja/format.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/json.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/strings.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

using SequenceKind = Sequence::Kind;

absl::StatusOr<int64_t> IntegerOr(const Value& value, int64_t otherwise) {
  if (value.is_missing() || value.is_none()) return otherwise;
  return ToInteger(value);
}

absl::StatusOr<Value> Lowered(Interpreter& run, const Value& value) {
  if (!value.is_string()) return value;
  return MakeString(run.budget(), ToLower(value.text()));
}

// "address.city" or "0.name" or an index, followed from an item; with comparison in mind, in lower
// case.
class AttributePath {
 public:
  AttributePath(const Value& attribute, Value otherwise, bool ignore_case)
      : otherwise_(std::move(otherwise)), ignore_case_(ignore_case) {
    if (attribute.is_missing() || attribute.is_none()) return;
    if (!attribute.is_string()) {
      parts_.push_back(attribute);
      return;
    }
    std::string_view path = attribute.view();
    while (true) {
      const size_t dot = std::min(path.find('.'), path.size());
      const std::string_view part = path.substr(0, dot);
      const bool is_index = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
        return c >= '0' && c <= '9';
      });
      const std::optional<int64_t> index = is_index ? ParseInteger(part, 10) : std::nullopt;
      parts_.push_back(index.has_value() ? Value(*index) : Value::String(part));
      if (dot == path.size()) return;
      path.remove_prefix(dot + 1);
    }
  }

  absl::StatusOr<Value> Follow(Interpreter& run, Value item) const {
    for (const Value& part : parts_) {
      ASSIGN_OR_RETURN(item, run.Item(item, part));
      const bool has_default = !otherwise_.is_missing() && !otherwise_.is_none();
      if (item.is_undefined() && has_default) item = otherwise_;
    }
    if (!ignore_case_) return item;
    return Lowered(run, item);
  }

 private:
  Values parts_;
  Value otherwise_;
  bool ignore_case_;
};

// Several paths, "age,name": the keys of all.
class AttributePaths {
 public:
  AttributePaths(const Value& attribute, bool ignore_case) {
    if (!attribute.is_string()) {
      paths_.emplace_back(attribute, Value(), ignore_case);
      return;
    }
    std::string_view rest = attribute.view();
    while (true) {
      const size_t comma = std::min(rest.find(','), rest.size());
      paths_.emplace_back(Value::String(rest.substr(0, comma)), Value(), ignore_case);
      if (comma == rest.size()) return;
      rest.remove_prefix(comma + 1);
    }
  }

  absl::StatusOr<Value> Follow(Interpreter& run, const Value& item) const {
    Values keys;
    for (const AttributePath& path : paths_) {
      ASSIGN_OR_RETURN(Value key, path.Follow(run, item));
      keys.push_back(std::move(key));
    }
    return MakeSequence(run.budget(), std::move(keys));
  }

 private:
  std::vector<AttributePath> paths_;
};

// Stable, by keys that may turn out not to be comparable.
absl::StatusOr<Values> SortedByKeys(Interpreter& run, const Values& items, const Values& keys,
                                    bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  absl::Status status;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!status.ok()) return false;
    const auto less = reverse ? Compare(run.budget(), "<", keys[b], keys[a])
                              : Compare(run.budget(), "<", keys[a], keys[b]);
    status = less.status();
    return less.ok() && *less < 0;
  });
  RETURN_IF_ERROR(status);
  Values sorted;
  for (size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

// Text filters.

template <Text (*convert)(const Text&)>
absl::StatusOr<Value> ConvertText(Interpreter& run, const Value& value, const Arguments&) {
  ASSIGN_OR_RETURN(const Text text, run.Str(value));
  return MakeString(run.budget(), convert(text));
}

// Upper first letters; words part at spaces, hyphens and opening brackets.
Text TitleWords(const Text& text) {
  Text out;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text.view(), i);
    const Text letter = text.Slice(i, i + c.size);
    const bool parts =
        IsSpace(c.value) ||
        (c.value < 0x80 &&
         std::string_view("-({[<").find(static_cast<char>(c.value)) != std::string_view::npos);
    out.Append(in_word ? ToLower(letter) : ToUpper(letter));
    in_word = !parts;
    i += c.size;
  }
  return out;
}

Text AsMarkup(const Text& text) {
  Text markup = text;
  markup.set_markup(true);
  return markup;
}

absl::StatusOr<Value> Escape(Interpreter& run, const Value& value, const Arguments&) {
  if (value.is_string() && value.text().markup()) return value;
  ASSIGN_OR_RETURN(const Text text, run.Str(value));
  RETURN_IF_ERROR(run.budget().Bytes(text.size() * 5));
  return Value(EscapeHtml(text));
}

absl::StatusOr<Value> ToStringFilter(Interpreter& run, const Value& value, const Arguments&) {
  if (value.is_string()) return value;
  ASSIGN_OR_RETURN(Text text, run.Str(value));
  return Value(std::move(text));
}

absl::StatusOr<Value> Trim(Interpreter& run, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text text, run.Str(value));
  if (!arguments.Has(0) || arguments[0].is_none()) {
    return MakeString(run.budget(), Strip(text, std::nullopt, Side::kBoth));
  }
  if (!arguments[0].is_string()) return InvalidArgument("strip arg must be None or str");
  return MakeString(run.budget(), Strip(text, arguments[0].view(), Side::kBoth));
}

absl::StatusOr<Value> ReplaceFilter(Interpreter& run, const Value& value,
                                    const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text text, run.Str(value));
  ASSIGN_OR_RETURN(const Text from, run.Str(arguments[0]));
  ASSIGN_OR_RETURN(const Text to, run.Str(arguments[1]));
  ASSIGN_OR_RETURN(const int64_t count, IntegerOr(arguments[2], -1));
  ASSIGN_OR_RETURN(Text replaced, Replace(run.budget(), text, from.view(), to, count));
  return Value(std::move(replaced));
}

absl::StatusOr<Value> Center(Interpreter& run, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text text, run.Str(value));
  ASSIGN_OR_RETURN(const int64_t width, IntegerOr(arguments[0], 80));
  ASSIGN_OR_RETURN(Text centered, Pad(run.budget(), text, width, " ", Side::kBoth));
  return Value(std::move(centered));
}

absl::StatusOr<Value> Indent(Interpreter& run, const Value& value, const Arguments& arguments) {
  if (value.is_undefined()) return InvalidArgument("{}", value.undefined_message());
  if (!value.is_string())
    return InvalidArgument("indent needs a string, not {}", value.type_name());
  Text indent;
  if (arguments[0].is_string()) {
    indent = arguments[0].text();
  } else {
    ASSIGN_OR_RETURN(const int64_t width, IntegerOr(arguments[0], 4));
    ASSIGN_OR_RETURN(indent, Pad(run.budget(), Text(), width, " ", Side::kLeft));
  }
  const bool indent_first = arguments.Has(1) && arguments[1].truthy();
  const bool indent_blank = arguments.Has(2) && arguments[2].truthy();
  Text text = value.text();
  text.Append("\n");  // so that a newline at the end opens one more line
  ASSIGN_OR_RETURN(const Values lines, SplitLines(run.budget(), text, false));
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Text& line = lines[i].text();
    RETURN_IF_ERROR(run.budget().Bytes(indent.size() + line.size() + 1));
    if (i > 0) out.Append("\n");
    if (i > 0 ? indent_blank || !line.empty() : indent_first) out.Append(indent);
    out.Append(line);
  }
  return Value(std::move(out));
}

absl::StatusOr<Value> Truncate(Interpreter& run, const Value& value, const Arguments& arguments) {
  if (!value.is_string())
    return InvalidArgument("object of type '{}' has no len()", value.type_name());
  const Text& text = value.text();
  ASSIGN_OR_RETURN(const int64_t length, IntegerOr(arguments[0], 255));
  const bool kill_words = arguments.Has(1) && arguments[1].truthy();
  const Value end = arguments.Has(2) ? arguments[2] : Value::String("...");
  ASSIGN_OR_RETURN(const int64_t leeway, IntegerOr(arguments[3], 5));
  if (!end.is_string()) return InvalidArgument("truncate: end must be a string");
  const int64_t end_length = static_cast<int64_t>(CountCodePoints(end.view()));
  if (length < end_length)
    return InvalidArgument("expected length >= {}, got {}", end_length, length);
  if (leeway < 0) return InvalidArgument("expected leeway >= 0, got {}", leeway);
  const int64_t text_length = static_cast<int64_t>(CountCodePoints(text.view()));
  if (text_length - leeway <= length) return value;
  size_t cut = OffsetOf(text.view(), static_cast<size_t>(length - end_length));
  if (!kill_words) cut = std::min(cut, text.view().substr(0, cut).rfind(' '));
  Text out = text.Slice(0, cut);
  return MakeString(run.budget(), out.Append(end.text()));
}

absl::StatusOr<Value> WordCount(Interpreter& run, const Value& value, const Arguments&) {
  ASSIGN_OR_RETURN(const Text text, run.Str(value));
  int64_t count = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text.view(), i);
    const bool word = c.value == '_' || IsAlpha(c.value) || IsDigit(c.value);
    count += word && !in_word ? 1 : 0;
    in_word = word;
    i += c.size;
  }
  return Value(count);
}

Text UrlQuoted(const Text& text, bool for_query) {
  Text out;
  text.ForEachPiece([&](std::string_view piece, bool data) {
    std::string quoted;
    for (char c : piece) {
      const bool plain = (std::isalnum(static_cast<unsigned char>(c)) != 0 &&
                          static_cast<unsigned char>(c) < 0x80) ||
                         std::string_view("_.-~").find(c) != std::string_view::npos ||
                         (c == '/' && !for_query);
      if (plain) {
        quoted += c;
      } else if (c == ' ' && for_query) {
        quoted += '+';
      } else {
        quoted += fmt::format("%{:02X}", static_cast<unsigned char>(c));
      }
    }
    out.Append(quoted, data);
  });
  return out;
}

absl::StatusOr<Value> UrlEncode(Interpreter& run, const Value& value, const Arguments&) {
  if (!value.is_dict() && !value.is_sequence()) {
    ASSIGN_OR_RETURN(const Text text, run.Str(value));
    return MakeString(run.budget(), UrlQuoted(text, false));
  }
  Values pairs;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict().items()) {
      pairs.push_back(key);
      pairs.push_back(item);
    }
  } else {
    ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
    for (const Value& item : items) {
      ASSIGN_OR_RETURN(const Values pair, run.Iterate(item));
      if (pair.size() != 2) return InvalidArgument("urlencode takes pairs");
      pairs.insert(pairs.end(), pair.begin(), pair.end());
    }
  }
  Text out;
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSIGN_OR_RETURN(const Text text, run.Str(pairs[i]));
    RETURN_IF_ERROR(run.budget().Bytes(text.size() * 3));
    if (i > 0) out.Append(i % 2 == 0 ? "&" : "=");
    out.Append(UrlQuoted(text, true));
  }
  return Value(std::move(out));
}

absl::StatusOr<Value> XmlAttributes(Interpreter& run, const Value& value,
                                    const Arguments& arguments) {
  if (!value.is_dict())
    return InvalidArgument("xmlattr needs a mapping, not {}", value.type_name());
  Text out;
  for (const auto& [key, item] : value.dict().items()) {
    if (item.is_none() || item.is_undefined()) continue;
    ASSIGN_OR_RETURN(const Text name, run.Str(key));
    if (name.view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return InvalidArgument("Invalid character in attribute name: '{}'", name.view());
    }
    ASSIGN_OR_RETURN(const Value escaped, Escape(run, item, {}));
    if (!out.empty()) out.Append(" ");
    out.Append(EscapeHtml(name)).Append("=\"").Append(escaped.text()).Append("\"");
  }
  const bool with_space = !arguments.Has(0) || arguments[0].truthy();
  Text all(with_space && !out.empty() ? " " : "");
  return MakeString(run.budget(), all.Append(out));
}

absl::StatusOr<Value> FormatFilter(Interpreter& run, const Value& value,
                                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text format, run.Str(value));
  if (arguments.keyword.empty()) {
    ASSIGN_OR_RETURN(const Value values,
                     MakeSequence(run.budget(), arguments.positional, SequenceKind::kTuple));
    return FormatPercent(run.budget(), format, values);
  }
  if (!arguments.positional.empty()) {
    return InvalidArgument("can't handle positional and keyword arguments at the same time");
  }
  Dict names;
  for (const auto& [name, item] : arguments.keyword) names.Set(Value::String(name), item);
  ASSIGN_OR_RETURN(const Value values, MakeDict(run.budget(), std::move(names)));
  return FormatPercent(run.budget(), format, values);
}

absl::StatusOr<Value> FileSizeFormat(Interpreter&, const Value& value, const Arguments& arguments) {
  const std::optional<double> bytes = value.is_number()   ? value.number()
                                      : value.is_string() ? ParseFloat(value.view())
                                                          : std::nullopt;
  if (!bytes.has_value()) return InvalidArgument("filesizeformat needs a number");
  const bool binary = arguments.Has(0) && arguments[0].truthy();
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return Value::String("1 Byte");
  if (*bytes < base) return Value::String(fmt::format("{:.0f} Bytes", std::trunc(*bytes)));
  double unit = base;
  std::string prefix;
  for (char letter : std::string_view("kMGTPEZY")) {
    prefix = binary ? std::string{letter == 'k' ? 'K' : letter, 'i'} : std::string(1, letter);
    unit *= base;
    if (*bytes < unit) break;
  }
  return Value::String(fmt::format("{:.1f} {}B", base * *bytes / unit, prefix));
}

absl::StatusOr<Value> ToJsonFilter(Interpreter& run, const Value& value,
                                   const Arguments& arguments) {
  JsonStyle style;
  style.ensure_ascii = arguments.Has(0) && arguments[0].truthy();
  style.sort_keys = arguments.Has(3) && arguments[3].truthy();
  if (arguments.Has(1) && !arguments[1].is_none()) {
    style.indented = true;
    style.item_separator = ",";
    if (arguments[1].is_string()) {
      style.indent = arguments[1].view();
    } else {
      ASSIGN_OR_RETURN(const int64_t width, ToInteger(arguments[1]));
      ASSIGN_OR_RETURN(const Text indent, Pad(run.budget(), Text(), width, " ", Side::kLeft));
      style.indent = indent.view();
    }
  }
  if (arguments.Has(2) && !arguments[2].is_none()) {
    ASSIGN_OR_RETURN(const Values separators, run.Iterate(arguments[2]));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      return InvalidArgument("separators must be two strings");
    }
    style.item_separator = separators[0].view();
    style.key_separator = separators[1].view();
  }
  ASSIGN_OR_RETURN(Text text, ToJson(run.budget(), value, style));
  return Value(std::move(text));
}

// Number filters.

absl::StatusOr<Value> Abs(Interpreter&, const Value& value, const Arguments&) {
  if (value.is_undefined()) return InvalidArgument("{}", value.undefined_message());
  if (!value.is_number())
    return InvalidArgument("bad operand type for abs(): '{}'", value.type_name());
  if (value.is_float()) return Value(std::fabs(value.number()));
  return value.integer() < 0 ? ApplyUnary("-", value) : Value(value.integer());
}

absl::StatusOr<Value> ToInt(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value otherwise = arguments.Has(0) ? arguments[0] : Value(0);
  ASSIGN_OR_RETURN(const int64_t base, IntegerOr(arguments[1], 10));
  if (value.is_integral()) return Value(value.integer());
  std::optional<double> number;
  if (value.is_string()) {
    if (const auto integer = ParseInteger(value.view(), static_cast<int>(base)))
      return Value(*integer);
    number = ParseFloat(value.view());
  } else if (value.is_float()) {
    number = value.number();
  } else if (value.is_undefined()) {
    return InvalidArgument("{}", value.undefined_message());
  }
  if (!number.has_value() || !std::isfinite(*number)) return otherwise;
  if (std::fabs(*number) >= 9.2e18) return InvalidArgument("integer is out of range");
  return Value(static_cast<int64_t>(*number));
}

absl::StatusOr<Value> ToFloat(Interpreter&, const Value& value, const Arguments& arguments) {
  const Value otherwise = arguments.Has(0) ? arguments[0] : Value(0.0);
  if (value.is_number()) return Value(value.number());
  if (value.is_undefined()) return InvalidArgument("{}", value.undefined_message());
  const std::optional<double> number = value.is_string() ? ParseFloat(value.view()) : std::nullopt;
  return number.has_value() ? Value(*number) : otherwise;
}

absl::StatusOr<Value> Round(Interpreter&, const Value& value, const Arguments& arguments) {
  if (value.is_undefined()) return InvalidArgument("{}", value.undefined_message());
  if (!value.is_number()) {
    return InvalidArgument("type {} doesn't define __round__ method", value.type_name());
  }
  ASSIGN_OR_RETURN(const int64_t precision, IntegerOr(arguments[0], 0));
  const std::string_view method = arguments[1].is_string() ? arguments[1].view() : "common";
  if (precision > 300 || precision < -300)
    return InvalidArgument("round: precision is out of range");
  const double number = value.number();
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(number * scale) / scale);
  if (method == "floor") return Value(std::floor(number * scale) / scale);
  if (method != "common") return InvalidArgument("method must be common, ceil or floor");
  if (!std::isfinite(number) || (value.is_integral() && precision >= 0)) return value;
  if (precision < 0) {
    const double rounded = std::nearbyint(number * scale) / scale;
    return value.is_float() ? Value(rounded) : Value(static_cast<int64_t>(rounded));
  }
  // To the nearest decimal, which printing does exactly.
  return Value(*ParseFloat(fmt::format("{:.{}f}", number, static_cast<int>(precision))));
}

absl::StatusOr<Value> Sum(Interpreter& run, const Value& value, const Arguments& arguments) {
  const AttributePath path(arguments[0], Value(), false);
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  Value sum = arguments.Has(1) ? arguments[1] : Value(0);
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value term, path.Follow(run, item));
    ASSIGN_OR_RETURN(sum, ApplyBinary(run.budget(), "+", sum, term));
  }
  return sum;
}

// Filters of sequences.

absl::StatusOr<Value> Default(Interpreter&, const Value& value, const Arguments& arguments) {
  const bool falsy_too = arguments.Has(1) && arguments[1].truthy();
  if (!value.is_undefined() && !(falsy_too && !value.truthy())) return value;
  return arguments.Has(0) ? arguments[0] : Value::String("");
}

absl::StatusOr<Value> Length(Interpreter& run, const Value& value, const Arguments&) {
  if (value.is_string()) return Value(CountCodePoints(value.view()));
  if (value.is_dict()) return Value(value.dict().size());
  if (value.is_undefined()) return Value(0);
  if (value.is_sequence() && value.sequence().kind != SequenceKind::kIterator) {
    return Value(value.sequence().items.size());
  }
  if (value.is_object() && value.type_name() == "LoopContext")
    return run.Attribute(value, "length");
  return InvalidArgument("object of type '{}' has no len()", value.type_name());
}

absl::StatusOr<Value> List(Interpreter& run, const Value& value, const Arguments&) {
  ASSIGN_OR_RETURN(Values items, run.Iterate(value));
  return MakeSequence(run.budget(), std::move(items));
}

absl::StatusOr<Value> First(Interpreter& run, const Value& value, const Arguments&) {
  if (value.is_sequence()) {
    Sequence& sequence = value.sequence();
    const size_t first = sequence.consumed;
    if (first < sequence.items.size()) {
      if (sequence.kind == SequenceKind::kIterator) ++sequence.consumed;
      return sequence.items[first];
    }
  } else {
    ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
    if (!items.empty()) return items.front();
  }
  return Value::UndefinedWith("No first item, sequence was empty.");
}

absl::StatusOr<Value> Last(Interpreter& run, const Value& value, const Arguments&) {
  if (value.is_sequence() && value.sequence().kind == SequenceKind::kIterator) {
    return InvalidArgument("'generator' object is not reversible");
  }
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  return items.empty() ? Value::UndefinedWith("No last item, sequence was empty.") : items.back();
}

absl::StatusOr<Value> Reverse(Interpreter& run, const Value& value, const Arguments&) {
  if (value.is_string()) {
    return Slice(run.budget(), value, Value(), Value(), Value(-1));
  }
  ASSIGN_OR_RETURN(Values items, run.Iterate(value));
  std::reverse(items.begin(), items.end());
  return MakeSequence(run.budget(), std::move(items), SequenceKind::kIterator);
}

absl::StatusOr<Value> JoinFilter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const AttributePath path(arguments[1], Value(), false);
  Text separator;
  if (arguments.Has(0)) {
    ASSIGN_OR_RETURN(separator, run.Str(arguments[0]));
  }
  ASSIGN_OR_RETURN(Values items, run.Iterate(value));
  for (Value& item : items) {
    ASSIGN_OR_RETURN(item, path.Follow(run, std::move(item)));
  }
  ASSIGN_OR_RETURN(Text text, Join(run, separator, items, false));
  return Value(std::move(text));
}

absl::StatusOr<Value> Items(Interpreter& run, const Value& value, const Arguments&) {
  Values items;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict().items()) {
      ASSIGN_OR_RETURN(Value pair, MakeSequence(run.budget(), {key, item}, SequenceKind::kTuple));
      items.push_back(std::move(pair));
    }
  } else if (!value.is_undefined()) {
    return InvalidArgument("Can only get item pairs from a mapping.");
  }
  return MakeSequence(run.budget(), std::move(items), SequenceKind::kIterator);
}

absl::StatusOr<Value> DictSort(Interpreter& run, const Value& value, const Arguments& arguments) {
  if (!value.is_dict())
    return InvalidArgument("dictsort needs a mapping, not {}", value.type_name());
  const bool case_sensitive = arguments.Has(0) && arguments[0].truthy();
  const std::string_view by = arguments[1].is_string() ? arguments[1].view() : "key";
  if (by != "key" && by != "value") {
    return InvalidArgument("You can only sort by either \"key\" or \"value\"");
  }
  Values items, keys;
  for (const auto& [key, item] : value.dict().items()) {
    ASSIGN_OR_RETURN(Value pair, MakeSequence(run.budget(), {key, item}, SequenceKind::kTuple));
    items.push_back(std::move(pair));
    keys.push_back(by == "key" ? key : item);
    if (!case_sensitive) {
      ASSIGN_OR_RETURN(keys.back(), Lowered(run, keys.back()));
    }
  }
  const bool reverse = arguments.Has(2) && arguments[2].truthy();
  ASSIGN_OR_RETURN(Values sorted, SortedByKeys(run, items, keys, reverse));
  return MakeSequence(run.budget(), std::move(sorted));
}

absl::StatusOr<Value> Sort(Interpreter& run, const Value& value, const Arguments& arguments) {
  const bool reverse = arguments.Has(0) && arguments[0].truthy();
  const bool case_sensitive = arguments.Has(1) && arguments[1].truthy();
  const AttributePaths paths(arguments[2], !case_sensitive);
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  Values keys;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, paths.Follow(run, item));
    keys.push_back(std::move(key));
  }
  ASSIGN_OR_RETURN(Values sorted, SortedByKeys(run, items, keys, reverse));
  return MakeSequence(run.budget(), std::move(sorted));
}

absl::StatusOr<Value> Unique(Interpreter& run, const Value& value, const Arguments& arguments) {
  const AttributePath path(arguments[1], Value(), !(arguments.Has(0) && arguments[0].truthy()));
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  Values unique;
  Dict seen;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value key, path.Follow(run, item));
    RETURN_IF_ERROR(
        run.budget().Steps(1 + static_cast<int64_t>(key.is_string() ? 0 : seen.size())));
    if (seen.Find(key) != nullptr) continue;
    seen.Set(key, Value(true));
    unique.push_back(item);
  }
  return MakeSequence(run.budget(), std::move(unique), SequenceKind::kIterator);
}

template <int sign>
absl::StatusOr<Value> Extreme(Interpreter& run, const Value& value, const Arguments& arguments) {
  const AttributePath path(arguments[1], Value(), !(arguments.Has(0) && arguments[0].truthy()));
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  if (items.empty()) return Value::UndefinedWith("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(Value key, path.Follow(run, items[i]));
    if (i > 0) {
      ASSIGN_OR_RETURN(const int order, Compare(run.budget(), sign < 0 ? "<" : ">", key, best_key));
      if (order != sign) continue;
    }
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

absl::StatusOr<Value> GroupBy(Interpreter& run, const Value& value, const Arguments& arguments) {
  const bool case_sensitive = arguments.Has(2) && arguments[2].truthy();
  const AttributePath shown(arguments[0], arguments[1], false);
  const AttributePath compared(arguments[0], arguments[1], !case_sensitive);
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  Values keys;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, compared.Follow(run, item));
    keys.push_back(std::move(key));
  }
  ASSIGN_OR_RETURN(const Values sorted, SortedByKeys(run, items, keys, false));
  Values groups, members;
  Value group_key;
  const auto close_group = [&]() -> absl::Status {
    if (members.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(Value key, shown.Follow(run, members[0]));
    ASSIGN_OR_RETURN(Value list, MakeSequence(run.budget(), std::exchange(members, {})));
    ASSIGN_OR_RETURN(Value group, MakeSequence(run.budget(), {std::move(key), std::move(list)},
                                               SequenceKind::kGroup));
    groups.push_back(std::move(group));
    return absl::OkStatus();
  };
  for (const Value& item : sorted) {
    ASSIGN_OR_RETURN(Value key, compared.Follow(run, item));
    ASSIGN_OR_RETURN(const bool same, Equal(run.budget(), key, group_key));
    if (!same) RETURN_IF_ERROR(close_group());
    group_key = std::move(key);
    members.push_back(item);
  }
  RETURN_IF_ERROR(close_group());
  return MakeSequence(run.budget(), std::move(groups));
}

absl::StatusOr<Value> Batch(Interpreter& run, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t count, ToInteger(arguments[0]));
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  const bool fill = arguments.Has(1) && !arguments[1].is_none();
  Values rows, row;
  for (size_t i = 0; i < items.size(); ++i) {
    row.push_back(items[i]);
    const bool last = i + 1 == items.size();
    if (!last && static_cast<int64_t>(row.size()) != count) continue;
    if (last && fill && count > static_cast<int64_t>(row.size())) {
      RETURN_IF_ERROR(run.budget().Bytes(static_cast<size_t>(std::min<int64_t>(count, INT32_MAX)) *
                                         sizeof(Value)));
      row.resize(static_cast<size_t>(count), arguments[1]);
    }
    ASSIGN_OR_RETURN(Value list, MakeSequence(run.budget(), std::exchange(row, {})));
    rows.push_back(std::move(list));
  }
  return MakeSequence(run.budget(), std::move(rows), SequenceKind::kIterator);
}

absl::StatusOr<Value> SliceFilter(Interpreter& run, const Value& value,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t slices, ToInteger(arguments[0]));
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  if (slices == 0) return InvalidArgument("integer division or modulo by zero");
  const bool fill = arguments.Has(1) && !arguments[1].is_none();
  Values rows;
  const int64_t size = static_cast<int64_t>(items.size());
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < size % slices;
    const int64_t end = begin + size / slices + (extra ? 1 : 0);
    Values row(items.begin() + begin, items.begin() + end);
    if (fill && !extra) row.push_back(arguments[1]);
    ASSIGN_OR_RETURN(Value list, MakeSequence(run.budget(), std::move(row)));
    rows.push_back(std::move(list));
    begin = end;
  }
  return MakeSequence(run.budget(), std::move(rows), SequenceKind::kIterator);
}

absl::StatusOr<Value> Attr(Interpreter& run, const Value& value, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text name, run.Str(arguments[0]));
  if (value.is_dict() && FindMethod(value, name.view()) == nullptr) {
    return Value::UndefinedWith(fmt::format("'dict object' has no attribute '{}'", name.view()));
  }
  return run.Attribute(value, name.view());
}

absl::StatusOr<Value> Map(Interpreter& run, const Value& value, const Arguments& arguments) {
  Values mapped;
  if (!value.truthy()) return MakeSequence(run.budget(), {}, SequenceKind::kIterator);
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  const auto keyword = [&](std::string_view name) {
    for (const auto& [known, item] : arguments.keyword) {
      if (known == name) return item;
    }
    return Value();
  };
  const Value attribute = keyword("attribute");
  if (arguments.positional.empty() && !attribute.is_missing()) {
    const AttributePath path(attribute, keyword("default"), false);
    for (const Value& item : items) {
      ASSIGN_OR_RETURN(Value result, path.Follow(run, item));
      mapped.push_back(std::move(result));
    }
  } else {
    if (arguments.positional.empty()) return InvalidArgument("map requires a filter argument");
    ASSIGN_OR_RETURN(const Text filter, run.Str(arguments.positional[0]));
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : items) {
      ASSIGN_OR_RETURN(Value result, run.CallFilter(filter.view(), item, rest));
      mapped.push_back(std::move(result));
    }
  }
  return MakeSequence(run.budget(), std::move(mapped), SequenceKind::kIterator);
}

// select, reject, and with an attribute to look at: selectattr, rejectattr.
template <bool wanted, bool by_attribute>
absl::StatusOr<Value> Select(Interpreter& run, const Value& value, const Arguments& arguments) {
  Values selected;
  if (!value.truthy()) return MakeSequence(run.budget(), {}, SequenceKind::kIterator);
  Arguments rest = arguments;
  const auto take = [&rest] {
    const Value first = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return first;
  };
  if (by_attribute && rest.positional.empty()) {
    return InvalidArgument("Missing parameter for attribute name");
  }
  const AttributePath path(by_attribute ? take() : Value(), Value(), false);
  const bool has_test = !rest.positional.empty();
  Text test;
  if (has_test) {
    ASSIGN_OR_RETURN(test, run.Str(take()));
  }
  ASSIGN_OR_RETURN(const Values items, run.Iterate(value));
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value tested, path.Follow(run, item));
    bool holds = tested.truthy();
    if (has_test) {
      ASSIGN_OR_RETURN(holds, run.CallTest(test.view(), tested, rest));
    }
    if (holds == wanted) selected.push_back(item);
  }
  return MakeSequence(run.budget(), std::move(selected), SequenceKind::kIterator);
}

constexpr Builtin kFilters[] = {
    {"abs", "", Abs},
    {"attr", "name", Attr},
    {"batch", "linecount fill_with?", Batch},
    {"capitalize", "", ConvertText<Capitalize>},
    {"center", "width?", Center},
    {"count", "", Length},
    {"d", "default_value? boolean?", Default},
    {"default", "default_value? boolean?", Default},
    {"dictsort", "case_sensitive? by? reverse?", DictSort},
    {"e", "", Escape},
    {"escape", "", Escape},
    {"filesizeformat", "binary?", FileSizeFormat},
    {"first", "", First},
    {"float", "default?", ToFloat},
    {"forceescape", "", ConvertText<EscapeHtml>},
    {"format", "*", FormatFilter},
    {"groupby", "attribute default? case_sensitive?", GroupBy},
    {"indent", "width? first? blank?", Indent},
    {"int", "default? base?", ToInt},
    {"items", "", Items},
    {"join", "d? attribute?", JoinFilter},
    {"last", "", Last},
    {"length", "", Length},
    {"list", "", List},
    {"lower", "", ConvertText<ToLower>},
    {"map", "*", Map},
    {"max", "case_sensitive? attribute?", Extreme<1>},
    {"min", "case_sensitive? attribute?", Extreme<-1>},
    {"reject", "*", Select<false, false>},
    {"rejectattr", "*", Select<false, true>},
    {"replace", "old new count?", ReplaceFilter},
    {"reverse", "", Reverse},
    {"round", "precision? method?", Round},
    {"safe", "", ConvertText<AsMarkup>},
    {"select", "*", Select<true, false>},
    {"selectattr", "*", Select<true, true>},
    {"slice", "slices fill_with?", SliceFilter},
    {"sort", "reverse? case_sensitive? attribute?", Sort},
    {"string", "", ToStringFilter},
    {"sum", "attribute? start?", Sum},
    {"title", "", ConvertText<TitleWords>},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", ToJsonFilter},
    {"trim", "chars?", Trim},
    {"truncate", "length? killwords? end? leeway?", Truncate},
    {"unique", "case_sensitive? attribute?", Unique},
    {"upper", "", ConvertText<ToUpper>},
    {"urlencode", "", UrlEncode},
    {"wordcount", "", WordCount},
    {"xmlattr", "autospace?", XmlAttributes},
};

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  const Builtin* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                      [&](const Builtin& row) { return row.name == name; });
  return found != std::end(kFilters) ? found : nullptr;
}

}  // namespace baton::engine::jinja
