// The values a template works with: Python's, as far as templates can tell.
//
// Strings, lists and dicts are immutable and shared. Objects (namespaces, loops, macros) have
// identity; the Interpreter owns them, and values point at them, so that templates can tie no knots
// that would leak.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/jinja/budget.h"
#include "engine/text/jinja/text.h"

namespace baton::engine::jinja {

class Value;
struct Sequence;
class Dict;
class Object;

using Values = std::vector<Value>;

class Value {
 public:
  struct Missing {
  };  // no value at all: an argument not given, a name not found; templates never see it
  struct None {};
  struct Undefined {
    std::shared_ptr<const std::string> message;  // what using it says
  };
  using TextPtr = std::shared_ptr<const Text>;
  using SequencePtr = std::shared_ptr<Sequence>;
  using DictPtr = std::shared_ptr<const Dict>;

  Value() = default;
  Value(None) : value_(None{}) {}
  Value(bool value) : value_(value) {}
  Value(int64_t value) : value_(value) {}
  Value(int value) : value_(int64_t{value}) {}
  Value(size_t value) : value_(static_cast<int64_t>(value)) {}
  Value(double value) : value_(value) {}
  Value(Text value) : value_(std::make_shared<const Text>(std::move(value))) {}
  Value(SequencePtr value) : value_(std::move(value)) {}
  Value(DictPtr value) : value_(std::move(value)) {}
  Value(Object* value) : value_(value) {}
  template <typename T>
    requires(!std::is_convertible_v<T*, Object*>)
  Value(T*) = delete;  // or a char* would be a bool

  static Value String(std::string_view literal) { return Value(Text(literal)); }
  static Value UndefinedWith(std::string message) {
    Value value;
    value.value_ = Undefined{std::make_shared<const std::string>(std::move(message))};
    return value;
  }

  bool is_missing() const { return Is<Missing>(); }
  bool is_undefined() const { return Is<Undefined>(); }
  bool is_none() const { return Is<None>(); }
  bool is_bool() const { return Is<bool>(); }
  bool is_int() const { return Is<int64_t>(); }  // bool excluded
  bool is_float() const { return Is<double>(); }
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_string() const { return Is<TextPtr>(); }
  bool is_sequence() const { return Is<SequencePtr>(); }
  bool is_dict() const { return Is<DictPtr>(); }
  bool is_object() const { return Is<Object*>(); }

  const std::string& undefined_message() const { return *std::get<Undefined>(value_).message; }
  bool boolean() const { return std::get<bool>(value_); }
  int64_t integer() const {
    return is_bool() ? boolean() : std::get<int64_t>(value_);
  }                        // needs is_integral()
  double number() const {  // needs is_number()
    return is_float() ? std::get<double>(value_) : static_cast<double>(integer());
  }
  const Text& text() const { return *std::get<TextPtr>(value_); }
  std::string_view view() const { return text().view(); }
  Sequence& sequence() const { return *std::get<SequencePtr>(value_); }
  const Dict& dict() const { return *std::get<DictPtr>(value_); }
  Object* object() const { return std::get<Object*>(value_); }

  bool truthy() const;
  std::string_view type_name() const;             // Python's: "str", "NoneType", ...
  int nesting() const;                            // 0: no container
  bool IsSameObjectAs(const Value& other) const;  // Python's `is`

 private:
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(value_);
  }

  std::variant<Missing, Undefined, None, bool, int64_t, double, TextPtr, SequencePtr, DictPtr,
               Object*>
      value_;
};

// Everything ordered. Only lists and tuples, ranges and groups can be indexed; an iterator can be
// walked once.
struct Sequence {
  enum class Kind { kList, kTuple, kRange, kGroup, kIterator, kKeys, kValues, kItems };

  Kind kind = Kind::kList;
  Values items;
  size_t consumed = 0;  // kIterator: items already taken
  std::string range;    // kRange: how it prints
  int nesting = 1;

  bool indexable() const { return kind <= Kind::kGroup; }
  bool is_tuple() const { return kind == Kind::kTuple || kind == Kind::kGroup; }
};

// Insertion order, as in Python. Built by Set, then shared as const.
class Dict {
 public:
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(const Value& key, Value value);
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  int nesting() const { return nesting_; }

 private:
  const size_t* FindIndex(const Value& key) const;

  std::vector<std::pair<Value, Value>> items_;
  absl::flat_hash_map<std::string, size_t> by_string_;
  std::vector<size_t> not_strings_;
  int nesting_ = 1;
};

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> keyword;

  // After binding to named parameters: Missing where it was not given.
  const Value& operator[](size_t index) const { return positional[index]; }
  bool Has(size_t index) const { return !positional[index].is_missing(); }
};

class Interpreter;

// Something with identity. Lives as long as the Interpreter that made it.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual absl::StatusOr<Value> Call(Interpreter& run, Arguments arguments);
  virtual absl::StatusOr<Value> Attribute(Interpreter& run,
                                          std::string_view name);  // Missing: has none
  virtual bool is_mapping() const { return false; }
};

// Lists of Python's kinds, charged to the budget; nesting is limited.
absl::StatusOr<Value> MakeSequence(Budget& budget, Values items,
                                   Sequence::Kind kind = Sequence::Kind::kList);
absl::StatusOr<Value> MakeDict(Budget& budget, Dict dict);
absl::StatusOr<Value> MakeString(Budget& budget, Text text);

// ==, and < with an error where Python has one.
absl::StatusOr<bool> Equal(Budget& budget, const Value& a, const Value& b);
absl::StatusOr<int> Compare(Budget& budget, std::string_view op, const Value& a,
                            const Value& b);  // -1, 0, 1; 2: NaN

// str() and repr().
absl::StatusOr<Text> ToText(Budget& budget, const Value& value);
absl::StatusOr<Text> Repr(Budget& budget, const Value& value);
std::string FloatRepr(double value);

}  // namespace baton::engine::jinja
