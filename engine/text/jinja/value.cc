#include "engine/text/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

int Sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

constexpr int kUnordered = 2;

int CompareNumbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return Sign(a.integer(), b.integer());
  const double x = a.number(), y = b.number();
  return std::isnan(x) || std::isnan(y) ? kUnordered : Sign(x, y);
}

absl::StatusOr<bool> EqualItems(Budget& budget, const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(budget, a[i], b[i]));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> EqualDicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.items()) {
    const Value* other = b.Find(key);
    if (other == nullptr) return false;
    ASSIGN_OR_RETURN(const bool equal, Equal(budget, value, *other));
    if (!equal) return false;
  }
  return true;
}

// Keys of dicts are scalars or tuples of them; anything else is never equal to another.
bool EqualKeys(const Value& a, const Value& b) {
  Budget budget(0);
  const absl::StatusOr<bool> equal = Equal(budget, a, b);
  return equal.ok() && *equal;
}

// Writes Python's repr. Its own nesting is bounded by that of values, the text by the budget.
class ReprWriter {
 public:
  explicit ReprWriter(Budget& budget) : budget_(budget) {}

  absl::Status Write(const Value& value) {
    RETURN_IF_ERROR(budget_.Steps(1));
    if (value.is_string()) return WriteString(value.text());
    if (value.is_sequence()) return WriteSequence(value.sequence());
    if (value.is_dict()) return WriteDict(value.dict());
    if (value.is_undefined()) return Put("Undefined");
    ASSIGN_OR_RETURN(const Text text, ToText(budget_, value));
    return Put(text.view());
  }

  Text Take() { return std::move(out_); }

 private:
  absl::Status Put(std::string_view literal) {
    RETURN_IF_ERROR(budget_.Bytes(literal.size()));
    out_.Append(literal);
    return absl::OkStatus();
  }

  absl::Status WriteString(const Text& text) {
    RETURN_IF_ERROR(budget_.Bytes(text.size() + 2));
    const bool has_single = text.view().find('\'') != std::string_view::npos;
    const bool has_double = text.view().find('"') != std::string_view::npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    const std::string_view quotes(&quote, 1);
    out_.Append(quotes);
    text.ForEachPiece([&](std::string_view piece, bool data) {
      std::string escaped;
      for (size_t i = 0; i < piece.size();) {
        const CodePoint c = DecodeAt(piece, i);
        AppendEscaped(piece.substr(i, c.size), c.value, quote, escaped);
        i += c.size;
      }
      out_.Append(escaped, data);
    });
    out_.Append(quotes);
    return absl::OkStatus();
  }

  static void AppendEscaped(std::string_view bytes, char32_t c, char quote, std::string& out) {
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += bytes;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      out += bytes;
    } else if (c == kInvalid) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[0]));
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }

  absl::Status WriteItems(const Values& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(Put(", "));
      RETURN_IF_ERROR(Write(items[i]));
    }
    return absl::OkStatus();
  }

  absl::Status WriteSequence(const Sequence& sequence) {
    using Kind = Sequence::Kind;
    struct Brackets {
      std::string_view open, close;
    };
    static constexpr std::array<Brackets, 8> kBrackets = {{{"[", "]"},
                                                           {"(", ")"},
                                                           {"", ""},
                                                           {"(", ")"},
                                                           {"<generator object>", ""},
                                                           {"dict_keys([", "])"},
                                                           {"dict_values([", "])"},
                                                           {"dict_items([", "])"}}};
    const Brackets& brackets = kBrackets[static_cast<size_t>(sequence.kind)];
    RETURN_IF_ERROR(Put(brackets.open));
    if (sequence.kind == Kind::kRange) return Put(sequence.range);
    if (sequence.kind == Kind::kIterator) return absl::OkStatus();
    RETURN_IF_ERROR(WriteItems(sequence.items));
    if (sequence.is_tuple() && sequence.items.size() == 1) RETURN_IF_ERROR(Put(","));
    return Put(brackets.close);
  }

  absl::Status WriteDict(const Dict& dict) {
    RETURN_IF_ERROR(Put("{"));
    bool first = true;
    for (const auto& [key, value] : dict.items()) {
      if (!first) RETURN_IF_ERROR(Put(", "));
      first = false;
      RETURN_IF_ERROR(Write(key));
      RETURN_IF_ERROR(Put(": "));
      RETURN_IF_ERROR(Write(value));
    }
    return Put("}");
  }

  Budget& budget_;
  Text out_;
};

}  // namespace

bool Value::truthy() const {
  if (is_bool()) return boolean();
  if (is_int()) return integer() != 0;
  if (is_float()) return number() != 0;
  if (is_string()) return !text().empty();
  if (is_sequence()) {
    return sequence().kind == Sequence::Kind::kIterator || !sequence().items.empty();
  }
  if (is_dict()) return dict().size() > 0;
  return is_object();
}

std::string_view Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (is_dict()) return "dict";
  if (is_object()) return object()->type_name();
  if (!is_sequence()) return "Undefined";
  static constexpr std::array<std::string_view, 8> kNames = {
      "list", "tuple", "range", "tuple", "generator", "dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<size_t>(sequence().kind)];
}

int Value::nesting() const {
  return is_sequence() ? sequence().nesting : is_dict() ? dict().nesting() : 0;
}

bool Value::IsSameObjectAs(const Value& other) const {
  if (value_.index() != other.value_.index()) return false;
  if (is_bool()) return boolean() == other.boolean();
  if (is_int()) return integer() == other.integer();
  if (is_string()) return &text() == &other.text() || view() == other.view();
  if (is_sequence()) return &sequence() == &other.sequence();
  if (is_dict()) return &dict() == &other.dict();
  if (is_object()) return object() == other.object();
  return is_none();
}

const size_t* Dict::FindIndex(const Value& key) const {
  if (key.is_string()) {
    const auto found = by_string_.find(key.text().bytes());
    return found != by_string_.end() ? &found->second : nullptr;
  }
  for (const size_t& index : not_strings_) {
    if (EqualKeys(items_[index].first, key)) return &index;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  const size_t* index = FindIndex(key);
  return index != nullptr ? &items_[*index].second : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  const auto found = by_string_.find(std::string(key));
  return found != by_string_.end() ? &items_[found->second].second : nullptr;
}

void Dict::Set(const Value& key, Value value) {
  nesting_ = std::max({nesting_, value.nesting() + 1, key.nesting() + 1});
  if (const size_t* index = FindIndex(key)) {
    items_[*index].second = std::move(value);
    return;
  }
  if (key.is_string()) {
    by_string_.emplace(key.text().bytes(), items_.size());
  } else {
    not_strings_.push_back(items_.size());
  }
  items_.emplace_back(key, std::move(value));
}

absl::StatusOr<Value> Object::Call(Interpreter&, Arguments) {
  return InvalidArgument("'{}' object is not callable", type_name());
}

absl::StatusOr<Value> Object::Attribute(Interpreter&, std::string_view) { return Value(); }

absl::StatusOr<Value> MakeSequence(Budget& budget, Values items, Sequence::Kind kind) {
  RETURN_IF_ERROR(budget.Bytes(sizeof(Sequence) + items.size() * sizeof(Value)));
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  for (const Value& item : items) {
    sequence->nesting = std::max(sequence->nesting, item.nesting() + 1);
  }
  if (sequence->nesting > Budget::kMaxNesting) {
    return ResourceExhausted("lists are nested deeper than {} levels", Budget::kMaxNesting);
  }
  sequence->items = std::move(items);
  return Value(std::move(sequence));
}

absl::StatusOr<Value> MakeDict(Budget& budget, Dict dict) {
  RETURN_IF_ERROR(budget.Bytes(sizeof(Dict) + dict.size() * 4 * sizeof(Value)));
  if (dict.nesting() > Budget::kMaxNesting) {
    return ResourceExhausted("dicts are nested deeper than {} levels", Budget::kMaxNesting);
  }
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

absl::StatusOr<Value> MakeString(Budget& budget, Text text) {
  RETURN_IF_ERROR(budget.Bytes(text.size()));
  return Value(std::move(text));
}

absl::StatusOr<bool> Equal(Budget& budget, const Value& a, const Value& b) {
  RETURN_IF_ERROR(budget.Steps(1));
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b) == 0;
  if (a.is_string() && b.is_string()) return a.view() == b.view();
  if (a.is_sequence() && b.is_sequence()) {
    const Sequence &x = a.sequence(), &y = b.sequence();
    if (&x == &y) return true;
    const bool same_kind = x.kind == y.kind || (x.is_tuple() && y.is_tuple());
    if (!same_kind || x.kind == Sequence::Kind::kIterator) return false;
    return EqualItems(budget, x.items, y.items);
  }
  if (a.is_dict() && b.is_dict()) {
    if (&a.dict() == &b.dict()) return true;
    return EqualDicts(budget, a.dict(), b.dict());
  }
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  return a.IsSameObjectAs(b);
}

absl::StatusOr<int> Compare(Budget& budget, std::string_view op, const Value& a, const Value& b) {
  RETURN_IF_ERROR(budget.Steps(1));
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b);
  if (a.is_string() && b.is_string()) return Sign(a.view().compare(b.view()), 0);
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) return InvalidArgument("{}", side->undefined_message());
  }
  if (a.is_sequence() && b.is_sequence()) {
    const Sequence &x = a.sequence(), &y = b.sequence();
    const bool ordered = (x.is_tuple() && y.is_tuple()) ||
                         (x.kind == Sequence::Kind::kList && y.kind == Sequence::Kind::kList);
    if (ordered) {
      for (size_t i = 0; i < std::min(x.items.size(), y.items.size()); ++i) {
        ASSIGN_OR_RETURN(const bool equal, Equal(budget, x.items[i], y.items[i]));
        if (!equal) return Compare(budget, op, x.items[i], y.items[i]);
      }
      return Sign(x.items.size(), y.items.size());
    }
  }
  return InvalidArgument("'{}' not supported between instances of '{}' and '{}'", op, a.type_name(),
                         b.type_name());
}

absl::StatusOr<Text> ToText(Budget& budget, const Value& value) {
  if (value.is_string()) {
    RETURN_IF_ERROR(budget.Bytes(value.text().size()));
    Text text = value.text();
    text.set_markup(false);
    return text;
  }
  if (value.is_undefined() || value.is_missing()) return Text();
  if (value.is_none()) return Text("None");
  if (value.is_bool()) return Text(value.boolean() ? "True" : "False");
  if (value.is_int()) return Text(std::to_string(value.integer()));
  if (value.is_float()) return Text(FloatRepr(value.number()));
  if (value.is_object()) return Text(fmt::format("<{}>", value.type_name()));
  return Repr(budget, value);
}

absl::StatusOr<Text> Repr(Budget& budget, const Value& value) {
  ReprWriter writer(budget);
  RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

// Python's float repr: the shortest digits that read back the same, an exponent below 1e-4 and from
// 1e16 on.
std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double magnitude = std::fabs(value);
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof(buffer), value,
                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace baton::engine::jinja
