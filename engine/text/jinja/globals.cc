// Global functions.
#include <array>
#include <ctime>

#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/objects.h"

namespace baton::engine::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // jinja2's sandbox has the same

absl::StatusOr<Value> Range(Interpreter& run, const Value&, const Arguments& arguments) {
  int64_t bounds[3] = {0, 0, 1};
  for (size_t i = 0; i < 3; ++i) {
    if (!arguments.Has(i)) continue;
    ASSIGN_OR_RETURN(bounds[i], ToInteger(arguments[i]));
  }
  if (!arguments.Has(1)) std::swap(bounds[0], bounds[1]);
  const auto [begin, end, step] = bounds;
  if (step == 0) return InvalidArgument("range() arg 3 must not be zero");
  const __int128 distance = static_cast<__int128>(end) - begin;
  const __int128 count = (distance + step - (step > 0 ? 1 : -1)) / step;
  if (count > kMaxRange) {
    return ResourceExhausted("a range may have {} items at most", kMaxRange);
  }
  Values items;
  for (__int128 i = 0; i < count; ++i)
    items.push_back(Value(static_cast<int64_t>(begin + i * step)));
  ASSIGN_OR_RETURN(Value range,
                   MakeSequence(run.budget(), std::move(items), Sequence::Kind::kRange));
  range.sequence().range = step == 1 ? fmt::format("range({}, {})", begin, end)
                                     : fmt::format("range({}, {}, {})", begin, end, step);
  return range;
}

// A mapping or pairs, then keywords: what dict() and namespace() take.
absl::StatusOr<Dict> ToDict(Interpreter& run, const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) return InvalidArgument("expected at most 1 argument");
  for (const Value& from : arguments.positional) {
    if (from.is_dict()) {
      dict = from.dict();
      continue;
    }
    ASSIGN_OR_RETURN(const Values pairs, run.Iterate(from));
    for (const Value& pair : pairs) {
      ASSIGN_OR_RETURN(Values key_value, run.Iterate(pair));
      if (key_value.size() != 2) return InvalidArgument("a dict is made of pairs");
      dict.Set(key_value[0], std::move(key_value[1]));
    }
  }
  for (const auto& [name, value] : arguments.keyword) dict.Set(Value::String(name), value);
  return dict;
}

absl::StatusOr<Value> MakeDictFrom(Interpreter& run, const Value&, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Dict dict, ToDict(run, arguments));
  return MakeDict(run.budget(), std::move(dict));
}

absl::StatusOr<Value> MakeNamespace(Interpreter& run, const Value&, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Dict dict, ToDict(run, arguments));
  ASSIGN_OR_RETURN(Namespace* const space, run.NewObject<Namespace>());
  for (const auto& [name, value] : dict.items()) {
    if (!name.is_string()) return InvalidArgument("names in a namespace are strings");
    space->Set(name.view(), value);
  }
  return Value(space);
}

absl::StatusOr<Value> MakeCycler(Interpreter& run, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) return InvalidArgument("at least one item has to be provided");
  ASSIGN_OR_RETURN(Cycler* const cycler, run.NewObject<Cycler>(arguments.positional));
  return Value(cycler);
}

absl::StatusOr<Value> MakeJoiner(Interpreter& run, const Value&, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Joiner* const joiner,
                   run.NewObject<Joiner>(arguments.Has(0) ? arguments[0] : Value::String(", ")));
  return Value(joiner);
}

absl::StatusOr<Value> RaiseException(Interpreter& run, const Value&, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text message, run.Str(arguments[0]));
  return RaisedByTemplate(message.view());
}

absl::StatusOr<Value> StrftimeNow(Interpreter& run, const Value&, const Arguments& arguments) {
  if (!arguments[0].is_string()) return InvalidArgument("strftime_now() takes a format");
  // A space behind, since an empty result can't be told from one that does not fit.
  const std::string format = arguments[0].text().bytes() + " ";
  if (format.size() > 1000) return ResourceExhausted("strftime_now(): the format is too long");
  std::array<char, 16384> buffer;
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &run.now());
  if (size == 0) return ResourceExhausted("strftime_now(): the text is too long");
  Text text;
  text.Append(std::string_view(buffer.data(), size - 1), arguments[0].text().has_data());
  return MakeString(run.budget(), std::move(text));
}

constexpr Builtin kGlobals[] = {
    {"range", "begin end? step?", Range},    {"dict", "*", MakeDictFrom},
    {"namespace", "*", MakeNamespace},       {"cycler", "*", MakeCycler},
    {"joiner", "sep?", MakeJoiner},          {"raise_exception", "message", RaiseException},
    {"strftime_now", "format", StrftimeNow},
};

}  // namespace

std::span<const Builtin> GlobalFunctions() { return kGlobals; }

}  // namespace baton::engine::jinja
