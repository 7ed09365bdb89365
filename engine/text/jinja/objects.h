// Values with identity: namespaces, loops, macros, and functions as values.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

class Scope;

// namespace(): the one thing that can be changed after it was made.
class Namespace final : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  absl::StatusOr<Value> Attribute(Interpreter& run, std::string_view name) override;
  void Set(std::string_view name, Value value) {
    names_.Set(Value::String(name), std::move(value));
  }

 private:
  Dict names_;
};

using LoopFilter = std::function<absl::StatusOr<bool>(const Value& item)>;

// The variable `loop`. Items that a filter has to let through are looked at no earlier than needed,
// as in jinja2.
class Loop final : public Object {
 public:
  Loop(Values items, LoopFilter filter, int depth)
      : items_(std::move(items)), filter_(std::move(filter)), depth_(depth) {}
  void MakeRecursive(const Statement* statement, Scope* scope) {
    statement_ = statement;
    scope_ = scope;
  }

  absl::StatusOr<bool> Advance();  // false: no more items
  const Value& current() const { return current_; }
  void Finish() { filter_ = nullptr; }
  absl::StatusOr<Values> TakeRest();
  size_t index0() const { return static_cast<size_t>(index0_); }
  // Whether `values` differ from those of the last call.
  absl::StatusOr<bool> Changed(Budget& budget, Values values);

  std::string_view type_name() const override { return "LoopContext"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& run, Arguments arguments) override;
  absl::StatusOr<Value> Attribute(Interpreter& run, std::string_view name) override;

 private:
  absl::StatusOr<Value> Pull();  // Missing: no more
  absl::StatusOr<Value> Peek();
  absl::StatusOr<size_t> Length();

  Values items_;
  size_t pulled_ = 0;          // items taken from items_
  std::deque<Value> pending_;  // pulled, but not yet current
  LoopFilter filter_;
  int64_t index0_ = -1;
  Value previous_, current_;
  Value last_changed_;
  int depth_;
  const Statement* statement_ = nullptr;  // recursive loops only
  Scope* scope_ = nullptr;
};

class MacroObject final : public Object {
 public:
  MacroObject(const Macro& macro, Scope* closure) : macro_(macro), closure_(closure) {}
  std::string_view type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& run, Arguments arguments) override;
  absl::StatusOr<Value> Attribute(Interpreter& run, std::string_view name) override;

 private:
  const Macro& macro_;
  Scope* closure_;
};

// A global function, or a method with the value it belongs to.
class BoundBuiltin final : public Object {
 public:
  BoundBuiltin(const Builtin& builtin, Value self) : builtin_(builtin), self_(std::move(self)) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& run, Arguments arguments) override {
    return CallBuiltin(run, builtin_, self_, std::move(arguments));
  }

 private:
  const Builtin& builtin_;
  Value self_;
};

// cycler(...): its items in turn.
class Cycler final : public Object {
 public:
  explicit Cycler(Values items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  absl::StatusOr<Value> Attribute(Interpreter& run, std::string_view name) override;
  Value Next();
  void Reset() { at_ = 0; }

 private:
  Values items_;
  size_t at_ = 0;
};

// joiner(separator): "" at the first call, then the separator.
class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  absl::StatusOr<Value> Call(Interpreter& run, Arguments arguments) override;

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace baton::engine::jinja
