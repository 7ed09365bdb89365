#include "engine/text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/format.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

absl::Status Unsupported(std::string_view op, const Value& a, const Value& b) {
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) return InvalidArgument("{}", side->undefined_message());
  }
  if (op == "+" && a.is_string()) {
    return InvalidArgument("can only concatenate str (not \"{}\") to str", b.type_name());
  }
  return InvalidArgument("unsupported operand type(s) for {}: '{}' and '{}'", op, a.type_name(),
                         b.type_name());
}

absl::Status Overflow() { return InvalidArgument("integer is out of range"); }

absl::StatusOr<Value> Power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return InvalidArgument("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return Value(result);
}

absl::StatusOr<Value> IntegerArithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+")
    return __builtin_add_overflow(a, b, &result) ? Overflow()
                                                 : absl::StatusOr<Value>(Value(result));
  if (op == "-")
    return __builtin_sub_overflow(a, b, &result) ? Overflow()
                                                 : absl::StatusOr<Value>(Value(result));
  if (op == "*")
    return __builtin_mul_overflow(a, b, &result) ? Overflow()
                                                 : absl::StatusOr<Value>(Value(result));
  if (op == "**") return Power(a, b);
  if (b == 0) return InvalidArgument("division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // INT64_MIN has no counterpart
    if (op == "%") return Value(int64_t{0});
    return __builtin_sub_overflow(int64_t{0}, a, &result) ? Overflow()
                                                          : absl::StatusOr<Value>(Value(result));
  }
  // Python rounds the quotient down, and the remainder has the sign of the divisor.
  const bool round_down = a % b != 0 && (a % b < 0) != (b < 0);
  if (op == "//") return Value(a / b - (round_down ? 1 : 0));
  return Value(a % b + (round_down ? b : 0));
}

absl::StatusOr<Value> FloatArithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") {
    if (a == 0 && b < 0) return InvalidArgument("0.0 cannot be raised to a negative power");
    if (a < 0 && std::floor(b) != b) return InvalidArgument("complex numbers are not supported");
    const double power = std::pow(a, b);
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) {
      return InvalidArgument("Numerical result out of range");
    }
    return Value(power);
  }
  if (b == 0)
    return InvalidArgument("{}", op == "/"    ? "float division by zero"
                                 : op == "//" ? "float floor division by zero"
                                              : "float modulo");
  if (op == "/") return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == "%") return Value(remainder == 0 ? std::copysign(0.0, b) : remainder);
  const double quotient = (a - remainder) / b;
  const double floor = std::floor(quotient);
  return Value(quotient - floor > 0.5 ? floor + 1 : floor);
}

absl::StatusOr<Value> Repeat(Budget& budget, const Value& value, int64_t count) {
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  if (value.is_string()) {
    const Text& text = value.text();
    if (text.empty() || times == 0) return Value::String("");
    size_t size = 0;
    if (__builtin_mul_overflow(text.size(), times, &size)) size = SIZE_MAX;
    RETURN_IF_ERROR(budget.Bytes(size));
    Text repeated;
    for (size_t i = 0; i < times; ++i) repeated.Append(text);
    return Value(std::move(repeated));
  }
  const Values& items = value.sequence().items;
  size_t size = 0;
  if (__builtin_mul_overflow(items.size() * sizeof(Value), times, &size)) size = SIZE_MAX;
  RETURN_IF_ERROR(budget.Bytes(size));
  Values repeated;
  if (items.empty()) return MakeSequence(budget, {}, value.sequence().kind);
  for (size_t i = 0; i < times; ++i) repeated.insert(repeated.end(), items.begin(), items.end());
  return MakeSequence(budget, std::move(repeated), value.sequence().kind);
}

bool IsRepeatable(const Value& value) {
  return value.is_string() ||
         (value.is_sequence() && value.sequence().kind <= Sequence::Kind::kTuple);
}

absl::StatusOr<Value> AddStrings(Budget& budget, const Text& a, const Text& b) {
  RETURN_IF_ERROR(budget.Bytes(a.size() + b.size()));
  const bool markup = a.markup() || b.markup();
  Text sum = markup && !a.markup() ? EscapeHtml(a) : a;
  sum.Append(markup && !b.markup() ? EscapeHtml(b) : b);
  sum.set_markup(markup);
  return Value(std::move(sum));
}

absl::StatusOr<Value> AddSequences(Budget& budget, const Sequence& a, const Sequence& b) {
  RETURN_IF_ERROR(budget.Bytes((a.items.size() + b.items.size()) * sizeof(Value)));
  Values items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  return MakeSequence(budget, std::move(items),
                      a.is_tuple() ? Sequence::Kind::kTuple : Sequence::Kind::kList);
}

bool AreConcatenable(const Value& a, const Value& b) {
  if (!a.is_sequence() || !b.is_sequence()) return false;
  const Sequence &x = a.sequence(), &y = b.sequence();
  return (x.is_tuple() && y.is_tuple()) ||
         (x.kind == Sequence::Kind::kList && y.kind == Sequence::Kind::kList);
}

// Where a slice begins and ends for a length, as Python's slice.indices says.
struct SliceRange {
  int64_t begin, end, step;
};

absl::StatusOr<SliceRange> ResolveSlice(const Value& begin, const Value& end, const Value& step,
                                        int64_t length) {
  const auto is_given = [](const Value& bound) { return !bound.is_missing() && !bound.is_none(); };
  SliceRange range{.begin = 0, .end = 0, .step = 1};
  if (is_given(step)) {
    ASSIGN_OR_RETURN(range.step, ToInteger(step));
  }
  if (range.step == 0) return InvalidArgument("slice step cannot be zero");
  const bool forward = range.step > 0;
  const int64_t lowest = forward ? 0 : -1, highest = forward ? length : length - 1;
  const auto resolve = [&](const Value& bound, int64_t otherwise) -> absl::StatusOr<int64_t> {
    if (!is_given(bound)) return otherwise;
    ASSIGN_OR_RETURN(int64_t at, ToInteger(bound));
    if (at < 0) at = at < -length ? lowest : at + length;
    return std::clamp(at, lowest, highest);
  };
  ASSIGN_OR_RETURN(range.begin, resolve(begin, forward ? lowest : highest));
  ASSIGN_OR_RETURN(range.end, resolve(end, forward ? highest : lowest));
  return range;
}

template <typename Visit>
void ForEachIndex(const SliceRange& range, Visit visit) {
  int64_t i = range.begin;
  while (range.step > 0 ? i < range.end : i > range.end) {
    visit(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, range.step, &i)) return;
  }
}

absl::StatusOr<Value> SliceString(Budget& budget, const Text& text, const Value& begin,
                                  const Value& end, const Value& step) {
  RETURN_IF_ERROR(budget.Bytes(text.size()));
  const size_t length = CountCodePoints(text.view());
  ASSIGN_OR_RETURN(const SliceRange range,
                   ResolveSlice(begin, end, step, static_cast<int64_t>(length)));
  Text slice;
  if (range.step == 1) {
    if (range.begin < range.end) {
      const size_t from = OffsetOf(text.view(), range.begin);
      const size_t size = OffsetOf(text.view().substr(from), range.end - range.begin);
      slice = text.Slice(from, from + size);
    }
    return Value(std::move(slice));
  }
  RETURN_IF_ERROR(budget.Bytes((length + 1) * sizeof(size_t)));
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); i += DecodeAt(text.view(), i).size) offsets.push_back(i);
  offsets.push_back(text.size());
  ForEachIndex(range, [&](size_t i) { slice.Append(text, offsets[i], offsets[i + 1]); });
  return Value(std::move(slice));
}

}  // namespace

absl::StatusOr<Value> ApplyUnary(std::string_view op, const Value& operand) {
  if (op == "not") return Value(!operand.truthy());
  if (operand.is_undefined()) return InvalidArgument("{}", operand.undefined_message());
  if (!operand.is_number()) {
    return InvalidArgument("bad operand type for unary {}: '{}'", op, operand.type_name());
  }
  if (operand.is_float()) return Value(op == "-" ? -operand.number() : operand.number());
  return op == "-" ? IntegerArithmetic("-", 0, operand.integer()) : Value(operand.integer());
}

absl::StatusOr<Value> ApplyBinary(Budget& budget, std::string_view op, const Value& a,
                                  const Value& b) {
  if (a.is_integral() && b.is_integral()) return IntegerArithmetic(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return FloatArithmetic(op, a.number(), b.number());
  if (op == "+") {
    if (a.is_string() && b.is_string()) return AddStrings(budget, a.text(), b.text());
    if (AreConcatenable(a, b)) return AddSequences(budget, a.sequence(), b.sequence());
  }
  if (op == "*") {
    if (IsRepeatable(a) && b.is_integral()) return Repeat(budget, a, b.integer());
    if (a.is_integral() && IsRepeatable(b)) return Repeat(budget, b, a.integer());
  }
  if (op == "%" && a.is_string()) return FormatPercent(budget, a.text(), b);
  return Unsupported(op, a, b);
}

absl::StatusOr<bool> IsIn(Budget& budget, const Value& item, const Value& container) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return InvalidArgument("'in <string>' requires string as left operand, not {}",
                             item.type_name());
    }
    RETURN_IF_ERROR(budget.Steps(1 + static_cast<int64_t>(container.view().size() / 64)));
    return container.view().find(item.view()) != std::string_view::npos;
  }
  if (container.is_dict()) return container.dict().Find(item) != nullptr;
  if (container.is_undefined()) return false;
  if (container.is_object() && container.object()->is_mapping()) return false;
  if (!container.is_sequence()) {
    return InvalidArgument("argument of type '{}' is not iterable", container.type_name());
  }
  Sequence& sequence = container.sequence();
  const bool is_iterator = sequence.kind == Sequence::Kind::kIterator;
  for (size_t i = is_iterator ? sequence.consumed : 0; i < sequence.items.size(); ++i) {
    if (is_iterator) sequence.consumed = i + 1;
    ASSIGN_OR_RETURN(const bool equal, Equal(budget, item, sequence.items[i]));
    if (equal) return true;
  }
  return false;
}

absl::StatusOr<bool> ApplyComparison(Budget& budget, std::string_view op, const Value& a,
                                     const Value& b) {
  if (op == "in") return IsIn(budget, a, b);
  if (op == "not in") {
    ASSIGN_OR_RETURN(const bool is_in, IsIn(budget, a, b));
    return !is_in;
  }
  if (op == "==" || op == "!=") {
    ASSIGN_OR_RETURN(const bool equal, Equal(budget, a, b));
    return equal == (op == "==");
  }
  ASSIGN_OR_RETURN(const int order, Compare(budget, op, a, b));
  if (order != -1 && order != 0 && order != 1) return false;  // NaN
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

absl::StatusOr<Value> Slice(Budget& budget, const Value& value, const Value& begin,
                            const Value& end, const Value& step) {
  if (value.is_string()) return SliceString(budget, value.text(), begin, end, step);
  const Values& items = value.sequence().items;
  ASSIGN_OR_RETURN(const SliceRange range,
                   ResolveSlice(begin, end, step, static_cast<int64_t>(items.size())));
  RETURN_IF_ERROR(budget.Steps(static_cast<int64_t>(items.size() / 16)));
  Values slice;
  ForEachIndex(range, [&](size_t i) { slice.push_back(items[i]); });
  return MakeSequence(budget, std::move(slice),
                      value.sequence().is_tuple() ? Sequence::Kind::kTuple : Sequence::Kind::kList);
}

Text EscapeHtml(const Text& text) {
  Text escaped;
  text.ForEachPiece([&](std::string_view piece, bool data) {
    std::string out;
    for (char c : piece) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '\'':
          out += "&#39;";
          break;
        case '"':
          out += "&#34;";
          break;
        default:
          out += c;
      }
    }
    escaped.Append(out, data);
  });
  escaped.set_markup(true);
  return escaped;
}

}  // namespace baton::engine::jinja
