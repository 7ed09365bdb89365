// Tests: what follows "is".
#include <algorithm>

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

using Predicate = bool (*)(const Value& value);

// A test of the value alone.
template <Predicate predicate>
absl::StatusOr<Value> Is(Interpreter&, const Value& value, const Arguments&) {
  return Value(predicate(value));
}

template <char... op>
absl::StatusOr<Value> Compares(Interpreter& run, const Value& value, const Arguments& arguments) {
  static constexpr char kOp[] = {op...};
  ASSIGN_OR_RETURN(const bool holds,
                   ApplyComparison(run.budget(), {kOp, sizeof(kOp)}, value, arguments[0]));
  return Value(holds);
}

absl::StatusOr<Value> HasRemainder(Interpreter& run, const Value& value, const Value& divisor,
                                   int64_t remainder) {
  ASSIGN_OR_RETURN(const Value rest, ApplyBinary(run.budget(), "%", value, divisor));
  ASSIGN_OR_RETURN(const bool equal, Equal(run.budget(), rest, Value(remainder)));
  return Value(equal);
}

absl::StatusOr<Value> IsOdd(Interpreter& run, const Value& value, const Arguments&) {
  return HasRemainder(run, value, Value(2), 1);
}
absl::StatusOr<Value> IsEven(Interpreter& run, const Value& value, const Arguments&) {
  return HasRemainder(run, value, Value(2), 0);
}
absl::StatusOr<Value> IsDivisibleBy(Interpreter& run, const Value& value,
                                    const Arguments& arguments) {
  return HasRemainder(run, value, arguments[0], 0);
}

// At least one letter with case, and all of them of the one.
absl::StatusOr<Value> HasCase(Interpreter& run, const Value& value, bool (*wanted)(char32_t),
                              bool (*unwanted)(char32_t)) {
  ASSIGN_OR_RETURN(const Text text, run.Str(value));
  bool any = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text.view(), i);
    if (unwanted(c.value)) return Value(false);
    any |= wanted(c.value);
    i += c.size;
  }
  return Value(any);
}
absl::StatusOr<Value> IsLowerCase(Interpreter& run, const Value& value, const Arguments&) {
  return HasCase(run, value, IsLower, IsUpper);
}
absl::StatusOr<Value> IsUpperCase(Interpreter& run, const Value& value, const Arguments&) {
  return HasCase(run, value, IsUpper, IsLower);
}

absl::StatusOr<Value> IsSameAs(Interpreter&, const Value& value, const Arguments& arguments) {
  return Value(value.IsSameObjectAs(arguments[0]));
}
absl::StatusOr<Value> IsFilterName(Interpreter&, const Value& value, const Arguments&) {
  return Value(value.is_string() && FindFilter(value.view()) != nullptr);
}
absl::StatusOr<Value> IsTestName(Interpreter&, const Value& value, const Arguments&) {
  return Value(value.is_string() && FindTest(value.view()) != nullptr);
}

bool IsSequence(const Value& value) {
  return value.is_string() || value.is_dict() || value.is_undefined() ||
         (value.is_sequence() && value.sequence().indexable());
}
bool IsIterable(const Value& value) {
  return value.is_sequence() || value.is_string() || value.is_dict() || value.is_undefined() ||
         (value.is_object() && value.object()->type_name() == "LoopContext");
}
bool IsCallable(const Value& value) {
  return value.is_undefined() || (value.is_object() && value.object()->callable());
}

constexpr Builtin kTests[] = {
    {"defined", "", Is<[](const Value& v) { return !v.is_undefined(); }>},
    {"undefined", "", Is<[](const Value& v) { return v.is_undefined(); }>},
    {"none", "", Is<[](const Value& v) { return v.is_none(); }>},
    {"boolean", "", Is<[](const Value& v) { return v.is_bool(); }>},
    {"true", "", Is<[](const Value& v) { return v.is_bool() && v.boolean(); }>},
    {"false", "", Is<[](const Value& v) { return v.is_bool() && !v.boolean(); }>},
    {"integer", "", Is<[](const Value& v) { return v.is_int(); }>},
    {"float", "", Is<[](const Value& v) { return v.is_float(); }>},
    {"number", "", Is<[](const Value& v) { return v.is_number(); }>},
    {"string", "", Is<[](const Value& v) { return v.is_string(); }>},
    {"mapping", "", Is<[](const Value& v) { return v.is_dict(); }>},
    {"sequence", "", Is<IsSequence>},
    {"iterable", "", Is<IsIterable>},
    {"callable", "", Is<IsCallable>},
    {"escaped", "", Is<[](const Value& v) { return v.is_string() && v.text().markup(); }>},
    {"odd", "", IsOdd},
    {"even", "", IsEven},
    {"divisibleby", "num", IsDivisibleBy},
    {"lower", "", IsLowerCase},
    {"upper", "", IsUpperCase},
    {"sameas", "other", IsSameAs},
    {"filter", "", IsFilterName},
    {"test", "", IsTestName},
    {"in", "seq", Compares<'i', 'n'>},
    {"==", "other", Compares<'=', '='>},
    {"eq", "other", Compares<'=', '='>},
    {"equalto", "other", Compares<'=', '='>},
    {"!=", "other", Compares<'!', '='>},
    {"ne", "other", Compares<'!', '='>},
    {"<", "other", Compares<'<'>},
    {"lt", "other", Compares<'<'>},
    {"lessthan", "other", Compares<'<'>},
    {"<=", "other", Compares<'<', '='>},
    {"le", "other", Compares<'<', '='>},
    {">", "other", Compares<'>'>},
    {"gt", "other", Compares<'>'>},
    {"greaterthan", "other", Compares<'>'>},
    {">=", "other", Compares<'>', '='>},
    {"ge", "other", Compares<'>', '='>},
};

}  // namespace

const Builtin* FindTest(std::string_view name) {
  const Builtin* found = std::find_if(std::begin(kTests), std::end(kTests),
                                      [&](const Builtin& row) { return row.name == name; });
  return found != std::end(kTests) ? found : nullptr;
}

}  // namespace baton::engine::jinja
