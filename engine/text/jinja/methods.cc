// Methods of values. Those that would change a value have no function: the sandbox does not let
// templates call them.
#include <algorithm>
#include <span>

#include "engine/text/jinja/format.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/objects.h"
#include "engine/text/jinja/strings.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

absl::StatusOr<std::string_view> ToStringArgument(const Value& value) {
  if (value.is_string()) return value.view();
  return InvalidArgument("must be str, not {}", value.type_name());
}

// None and absent mean white space.
absl::StatusOr<std::optional<std::string_view>> OptionalString(const Value& value) {
  if (value.is_missing() || value.is_none()) return std::optional<std::string_view>();
  ASSIGN_OR_RETURN(const std::string_view text, ToStringArgument(value));
  return std::optional<std::string_view>(text);
}

absl::StatusOr<int64_t> OptionalInteger(const Value& value, int64_t otherwise) {
  if (value.is_missing() || value.is_none()) return otherwise;
  return ToInteger(value);
}

template <Text (*convert)(const Text&)>
absl::StatusOr<Value> Converted(Interpreter& run, const Value& self, const Arguments&) {
  return MakeString(run.budget(), convert(self.text()));
}

template <Side side>
absl::StatusOr<Value> StripMethod(Interpreter& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto chars, OptionalString(arguments[0]));
  return MakeString(run.budget(), Strip(self.text(), chars, side));
}

template <bool from_right>
absl::StatusOr<Value> SplitMethod(Interpreter& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const auto separator, OptionalString(arguments[0]));
  ASSIGN_OR_RETURN(const int64_t count, OptionalInteger(arguments[1], -1));
  ASSIGN_OR_RETURN(Values pieces, Split(run.budget(), self.text(), separator, count, from_right));
  return MakeSequence(run.budget(), std::move(pieces));
}

absl::StatusOr<Value> SplitLinesMethod(Interpreter& run, const Value& self,
                                       const Arguments& arguments) {
  ASSIGN_OR_RETURN(Values lines, SplitLines(run.budget(), self.text(), arguments[0].truthy()));
  return MakeSequence(run.budget(), std::move(lines));
}

template <bool from_right>
absl::StatusOr<Value> PartitionMethod(Interpreter& run, const Value& self,
                                      const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view separator, ToStringArgument(arguments[0]));
  if (separator.empty()) return InvalidArgument("empty separator");
  const Text& text = self.text();
  const size_t found = from_right ? text.view().rfind(separator) : text.view().find(separator);
  Values parts;
  if (found == std::string_view::npos) {
    parts = {Value::String(""), Value::String(""), Value::String("")};
    parts[from_right ? 2 : 0] = self;
  } else {
    const size_t end = found + separator.size();
    parts = {Value(text.Slice(0, found)), Value(text.Slice(found, end)),
             Value(text.Slice(end, text.size()))};
  }
  return MakeSequence(run.budget(), std::move(parts), Sequence::Kind::kTuple);
}

// The part [start, end) in characters that find, count, startswith look at, as bytes. end < begin:
// none.
absl::StatusOr<Text::Range> Window(std::string_view text, const Value& start, const Value& end) {
  if (start.is_missing() && end.is_missing()) return Text::Range{0, text.size()};
  const int64_t length = static_cast<int64_t>(CountCodePoints(text));
  ASSIGN_OR_RETURN(int64_t first, OptionalInteger(start, 0));
  ASSIGN_OR_RETURN(int64_t last, OptionalInteger(end, length));
  if (first < 0) first = std::max<int64_t>(first < -length ? 0 : first + length, 0);
  if (last < 0) last = std::max<int64_t>(last < -length ? 0 : last + length, 0);
  last = std::min(last, length);
  if (first > last) return Text::Range{1, 0};
  return Text::Range{OffsetOf(text, first), OffsetOf(text, last)};
}

template <bool at_end>
absl::StatusOr<Value> StartsOrEndsWith(Interpreter&, const Value& self,
                                       const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text::Range window, Window(self.view(), arguments[1], arguments[2]));
  const bool is_tuple = arguments[0].is_sequence() && arguments[0].sequence().is_tuple();
  const Values options = is_tuple ? arguments[0].sequence().items : Values{arguments[0]};
  for (const Value& option : options) {
    if (!option.is_string()) {
      return InvalidArgument("{} first arg must be str or a tuple of str, not {}",
                             at_end ? "endswith" : "startswith", option.type_name());
    }
    if (window.begin > window.end) continue;
    const std::string_view part = self.view().substr(window.begin, window.end - window.begin);
    if (at_end ? part.ends_with(option.view()) : part.starts_with(option.view()))
      return Value(true);
  }
  return Value(false);
}

template <bool from_right, bool must_exist>
absl::StatusOr<Value> FindMethodOf(Interpreter& run, const Value& self,
                                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view wanted, ToStringArgument(arguments[0]));
  ASSIGN_OR_RETURN(const Text::Range window, Window(self.view(), arguments[1], arguments[2]));
  RETURN_IF_ERROR(run.budget().Steps(static_cast<int64_t>(self.view().size() / 16)));
  size_t found = std::string_view::npos;
  if (window.begin <= window.end) {
    const std::string_view part = self.view().substr(window.begin, window.end - window.begin);
    found = from_right ? part.rfind(wanted) : part.find(wanted);
  }
  if (found == std::string_view::npos) {
    if (must_exist) return InvalidArgument("substring not found");
    return Value(-1);
  }
  return Value(CountCodePoints(self.view().substr(0, window.begin + found)));
}

absl::StatusOr<Value> CountMethod(Interpreter&, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view wanted, ToStringArgument(arguments[0]));
  ASSIGN_OR_RETURN(const Text::Range window, Window(self.view(), arguments[1], arguments[2]));
  if (window.begin > window.end) return Value(0);
  const std::string_view part = self.view().substr(window.begin, window.end - window.begin);
  if (wanted.empty()) return Value(CountCodePoints(part) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = part.find(wanted, at)) != std::string_view::npos; at += wanted.size()) {
    ++count;
  }
  return Value(count);
}

absl::StatusOr<Value> ReplaceMethod(Interpreter& run, const Value& self,
                                    const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view from, ToStringArgument(arguments[0]));
  RETURN_IF_ERROR(ToStringArgument(arguments[1]).status());
  ASSIGN_OR_RETURN(const int64_t count, OptionalInteger(arguments[2], -1));
  ASSIGN_OR_RETURN(Text text, Replace(run.budget(), self.text(), from, arguments[1].text(), count));
  return Value(std::move(text));
}

absl::StatusOr<Value> JoinMethod(Interpreter& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Values items, run.Iterate(arguments[0]));
  ASSIGN_OR_RETURN(Text text, Join(run, self.text(), items, true));
  return Value(std::move(text));
}

absl::StatusOr<Value> FormatMethod(Interpreter& run, const Value& self,
                                   const Arguments& arguments) {
  return FormatBraces(run, self.text(), arguments);
}

template <Side text_side>
absl::StatusOr<Value> PadMethod(Interpreter& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t width, ToInteger(arguments[0]));
  ASSIGN_OR_RETURN(const auto fill, OptionalString(arguments[1]));
  ASSIGN_OR_RETURN(Text text, Pad(run.budget(), self.text(), width, fill.value_or(" "), text_side));
  return Value(std::move(text));
}

absl::StatusOr<Value> ZfillMethod(Interpreter& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t width, ToInteger(arguments[0]));
  const Text& text = self.text();
  const size_t sign = text.view().starts_with('-') || text.view().starts_with('+') ? 1 : 0;
  ASSIGN_OR_RETURN(const Text padded, Pad(run.budget(), text.Slice(sign, text.size()),
                                          width - static_cast<int64_t>(sign), "0", Side::kRight));
  Text out = text.Slice(0, sign);
  return Value(out.Append(padded));
}

template <bool at_end>
absl::StatusOr<Value> RemoveAffix(Interpreter& run, const Value& self, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view affix, ToStringArgument(arguments[0]));
  const Text& text = self.text();
  const bool has = at_end ? text.view().ends_with(affix) : text.view().starts_with(affix);
  if (!has) return self;
  return MakeString(run.budget(), at_end ? text.Slice(0, text.size() - affix.size())
                                         : text.Slice(affix.size(), text.size()));
}

// First letter of each word upper, where a word is a run of letters.
Text TitleCase(const Text& text) {
  Text out;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text.view(), i);
    const Text letter = text.Slice(i, i + c.size);
    out.Append(in_word ? ToLower(letter) : ToUpper(letter));
    in_word = IsUpper(c.value) || IsLower(c.value);
    i += c.size;
  }
  return out;
}

Text SwapCase(const Text& text) {
  Text out;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text.view(), i);
    const Text letter = text.Slice(i, i + c.size);
    out.Append(IsUpper(c.value) ? ToLower(letter) : ToUpper(letter));
    i += c.size;
  }
  return out;
}

bool IsAlphaOrDigit(char32_t c) { return IsAlpha(c) || IsDigit(c); }

template <bool (*is)(char32_t)>
absl::StatusOr<Value> AllCharacters(Interpreter&, const Value& self, const Arguments&) {
  const std::string_view text = self.view();
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text, i);
    if (!is(c.value)) return Value(false);
    i += c.size;
  }
  return Value(!text.empty());
}

template <const char* test>
absl::StatusOr<Value> AsTest(Interpreter& run, const Value& self, const Arguments&) {
  ASSIGN_OR_RETURN(const bool holds, run.CallTest(test, self, {}));
  return Value(holds);
}
constexpr char kLowerTest[] = "lower";
constexpr char kUpperTest[] = "upper";

absl::StatusOr<Value> IsTitleMethod(Interpreter&, const Value& self, const Arguments&) {
  bool any = false, in_word = false;
  for (size_t i = 0; i < self.view().size();) {
    const CodePoint c = DecodeAt(self.view(), i);
    if (IsUpper(c.value) ? in_word : IsLower(c.value) && !in_word) return Value(false);
    in_word = IsUpper(c.value) || IsLower(c.value);
    any |= in_word;
    i += c.size;
  }
  return Value(any);
}

constexpr Builtin kStringMethods[] = {
    {"upper", "", Converted<ToUpper>},
    {"lower", "", Converted<ToLower>},
    {"casefold", "", Converted<ToLower>},
    {"capitalize", "", Converted<Capitalize>},
    {"title", "", Converted<TitleCase>},
    {"swapcase", "", Converted<SwapCase>},
    {"strip", "chars?", StripMethod<Side::kBoth>},
    {"lstrip", "chars?", StripMethod<Side::kLeft>},
    {"rstrip", "chars?", StripMethod<Side::kRight>},
    {"split", "sep? maxsplit?", SplitMethod<false>},
    {"rsplit", "sep? maxsplit?", SplitMethod<true>},
    {"splitlines", "keepends?", SplitLinesMethod},
    {"partition", "sep", PartitionMethod<false>},
    {"rpartition", "sep", PartitionMethod<true>},
    {"startswith", "prefix start? end?", StartsOrEndsWith<false>},
    {"endswith", "suffix start? end?", StartsOrEndsWith<true>},
    {"find", "sub start? end?", FindMethodOf<false, false>},
    {"rfind", "sub start? end?", FindMethodOf<true, false>},
    {"index", "sub start? end?", FindMethodOf<false, true>},
    {"rindex", "sub start? end?", FindMethodOf<true, true>},
    {"count", "sub start? end?", CountMethod},
    {"replace", "old new count?", ReplaceMethod},
    {"join", "iterable", JoinMethod},
    {"format", "*", FormatMethod},
    {"center", "width fillchar?", PadMethod<Side::kBoth>},
    {"ljust", "width fillchar?", PadMethod<Side::kLeft>},
    {"rjust", "width fillchar?", PadMethod<Side::kRight>},
    {"zfill", "width", ZfillMethod},
    {"removeprefix", "prefix", RemoveAffix<false>},
    {"removesuffix", "suffix", RemoveAffix<true>},
    {"isalpha", "", AllCharacters<IsAlpha>},
    {"isdigit", "", AllCharacters<IsDigit>},
    {"isdecimal", "", AllCharacters<IsDigit>},
    {"isnumeric", "", AllCharacters<IsDigit>},
    {"isalnum", "", AllCharacters<IsAlphaOrDigit>},
    {"isspace", "", AllCharacters<IsSpace>},
    {"islower", "", AsTest<kLowerTest>},
    {"isupper", "", AsTest<kUpperTest>},
    {"istitle", "", IsTitleMethod},
};

absl::StatusOr<Value> GetMethod(Interpreter&, const Value& self, const Arguments& arguments) {
  if (const Value* value = self.dict().Find(arguments[0])) return *value;
  return arguments.Has(1) ? arguments[1] : Value(Value::None{});
}

template <Sequence::Kind kind>
absl::StatusOr<Value> ViewMethod(Interpreter& run, const Value& self, const Arguments&) {
  RETURN_IF_ERROR(run.budget().Steps(static_cast<int64_t>(self.dict().size() / 4)));
  Values items;
  for (const auto& [key, value] : self.dict().items()) {
    if (kind == Sequence::Kind::kItems) {
      ASSIGN_OR_RETURN(Value pair,
                       MakeSequence(run.budget(), {key, value}, Sequence::Kind::kTuple));
      items.push_back(std::move(pair));
    } else {
      items.push_back(kind == Sequence::Kind::kKeys ? key : value);
    }
  }
  return MakeSequence(run.budget(), std::move(items), kind);
}

absl::StatusOr<Value> CopyMethod(Interpreter&, const Value& self, const Arguments&) { return self; }

constexpr Builtin kDictMethods[] = {
    {"get", "key default?", GetMethod},
    {"items", "", ViewMethod<Sequence::Kind::kItems>},
    {"keys", "", ViewMethod<Sequence::Kind::kKeys>},
    {"values", "", ViewMethod<Sequence::Kind::kValues>},
    {"copy", "", CopyMethod},
    {"clear", "*", nullptr},
    {"pop", "*", nullptr},
    {"popitem", "*", nullptr},
    {"setdefault", "*", nullptr},
    {"update", "*", nullptr},
};

absl::StatusOr<Value> SequenceIndex(Interpreter& run, const Value& self,
                                    const Arguments& arguments) {
  const Values& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(run.budget(), items[i], arguments[0]));
    if (equal) return Value(i);
  }
  ASSIGN_OR_RETURN(const Text repr, Repr(run.budget(), arguments[0]));
  return InvalidArgument("{} is not in {}", repr.view(), self.type_name());
}

absl::StatusOr<Value> SequenceCount(Interpreter& run, const Value& self,
                                    const Arguments& arguments) {
  int64_t count = 0;
  for (const Value& item : self.sequence().items) {
    ASSIGN_OR_RETURN(const bool equal, Equal(run.budget(), item, arguments[0]));
    count += equal ? 1 : 0;
  }
  return Value(count);
}

constexpr Builtin kListMethods[] = {
    {"index", "value", SequenceIndex},
    {"count", "value", SequenceCount},
    {"copy", "", CopyMethod},
    {"append", "*", nullptr},
    {"clear", "*", nullptr},
    {"extend", "*", nullptr},
    {"insert", "*", nullptr},
    {"pop", "*", nullptr},
    {"remove", "*", nullptr},
    {"reverse", "*", nullptr},
    {"sort", "*", nullptr},
};

constexpr Builtin kTupleMethods[] = {
    {"index", "value", SequenceIndex},
    {"count", "value", SequenceCount},
};

absl::StatusOr<Value> LoopCycle(Interpreter&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) return InvalidArgument("no items for cycling given");
  const Loop& loop = static_cast<const Loop&>(*self.object());
  return arguments.positional[loop.index0() % arguments.positional.size()];
}

absl::StatusOr<Value> LoopChanged(Interpreter& run, const Value& self, const Arguments& arguments) {
  Loop& loop = static_cast<Loop&>(*self.object());
  ASSIGN_OR_RETURN(const bool changed, loop.Changed(run.budget(), arguments.positional));
  return Value(changed);
}

constexpr Builtin kLoopMethods[] = {
    {"cycle", "*", LoopCycle},
    {"changed", "*", LoopChanged},
};

absl::StatusOr<Value> CyclerNext(Interpreter&, const Value& self, const Arguments&) {
  return static_cast<Cycler&>(*self.object()).Next();
}

absl::StatusOr<Value> CyclerReset(Interpreter&, const Value& self, const Arguments&) {
  static_cast<Cycler&>(*self.object()).Reset();
  return Value(Value::None{});
}

constexpr Builtin kCyclerMethods[] = {
    {"next", "", CyclerNext},
    {"reset", "", CyclerReset},
};

std::span<const Builtin> MethodsOf(const Value& self) {
  if (self.is_string()) return kStringMethods;
  if (self.is_dict()) return kDictMethods;
  if (self.is_sequence()) {
    if (self.sequence().kind == Sequence::Kind::kList) return kListMethods;
    if (self.sequence().indexable()) return kTupleMethods;
  }
  if (self.is_object() && dynamic_cast<Loop*>(self.object()) != nullptr) return kLoopMethods;
  if (self.is_object() && dynamic_cast<Cycler*>(self.object()) != nullptr) return kCyclerMethods;
  return {};
}

}  // namespace

const Builtin* FindMethod(const Value& self, std::string_view name) {
  for (const Builtin& method : MethodsOf(self)) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

}  // namespace baton::engine::jinja
