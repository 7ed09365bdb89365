// Runs a parsed template on given values. One per rendering, one thread.
//
// Scopes are jinja2's: loops, macros, call, filter, set and with blocks open one, if does not; what
// is set inside is gone afterwards, so loops hand values on through namespaces.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/budget.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

class Scope {
 public:
  explicit Scope(Scope* parent) : parent_(parent) {}
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
  Scope* parent() const { return parent_; }
  // A macro was made in here and may look names up later.
  bool captured() const { return captured_; }
  void Capture() {
    for (Scope* scope = this; scope != nullptr && !scope->captured_; scope = scope->parent_) {
      scope->captured_ = true;
    }
  }

 private:
  Scope* parent_;
  bool captured_ = false;
  std::vector<std::pair<std::string, Value>> names_;  // few
};

class Interpreter {
 public:
  Interpreter(size_t input_bytes, std::tm now);

  void SetGlobal(std::string name, Value value) { globals_[std::move(name)] = std::move(value); }
  absl::StatusOr<Text> Run(const Block& block);

  // What builtins work with.
  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }
  absl::StatusOr<Value> Attribute(const Value& object, std::string_view name);  // object.name
  absl::StatusOr<Value> Item(const Value& object, const Value& key);            // object[key]
  absl::StatusOr<Value> Call(const Value& callee, Arguments arguments);
  absl::StatusOr<Value> CallFilter(std::string_view name, const Value& value, Arguments arguments);
  absl::StatusOr<bool> CallTest(std::string_view name, const Value& value, Arguments arguments);
  absl::StatusOr<Values> Iterate(const Value& value);  // all items; uses up an iterator
  absl::StatusOr<Text> Str(const Value& value) { return ToText(budget_, value); }
  template <typename T, typename... Args>
  absl::StatusOr<T*> NewObject(Args&&... args) {
    RETURN_IF_ERROR(budget_.Bytes(sizeof(T) + 64));
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* pointer = object.get();
    objects_.push_back(std::move(object));
    return pointer;
  }
  absl::StatusOr<Value> CallMacro(const Macro& macro, Scope* closure, Arguments arguments);
  // The body of a recursive loop, over other items.
  absl::StatusOr<Value> RunLoopAgain(const Statement& loop, Scope* outer, const Value& items,
                                     int depth);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class ScopeGuard;
  class OutputGuard;

  absl::StatusOr<Flow> Execute(const Block& block);
  absl::StatusOr<Flow> Execute(const Statement& statement);
  absl::StatusOr<Flow> ExecuteScoped(const Block& block);
  absl::StatusOr<Flow> ExecuteIf(const Statement& statement);
  absl::Status ExecuteFor(const Statement& statement, const Value& items, int depth);
  absl::Status ExecuteWith(const Statement& statement);
  absl::Status ExecuteCall(const Statement& statement);
  absl::StatusOr<Text> Capture(const Block& block);
  absl::StatusOr<Value> FilterBlock(const Statement& statement);
  absl::Status DefineMacro(const Statement& statement);
  absl::Status Assign(const Expr& target, Value value);
  absl::Status AssignAttribute(const Expr& target, Value value);
  absl::Status Put(const Value& value);
  absl::Status Put(const Text& text);

  absl::StatusOr<Value> Evaluate(const Expr& expr);
  absl::StatusOr<Value> EvaluateUnlocated(const Expr& expr);
  absl::StatusOr<Value> EvaluateDict(const Expr& expr);
  absl::StatusOr<Value> EvaluateItem(const Expr& expr);
  absl::StatusOr<Value> EvaluateCall(const Expr& expr);
  absl::StatusOr<Value> EvaluateCompare(const Expr& expr);
  absl::StatusOr<Value> EvaluateConcat(const Expr& expr);
  absl::StatusOr<Value> EvaluateConditional(const Expr& expr);
  absl::StatusOr<Values> EvaluateAll(const std::vector<ExprPtr>& exprs);
  absl::StatusOr<Arguments> EvaluateArguments(const CallArguments& call);
  absl::StatusOr<bool> EvaluateCondition(const Expr& expr);
  Value Lookup(std::string_view name) const;

  Budget budget_;
  const std::tm now_;
  std::unordered_map<std::string, Value> globals_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<Scope>> captured_scopes_;
  Scope* scope_ = nullptr;
  Text* output_ = nullptr;
  const Text* block_text_ = nullptr;  // of the {% filter %} or {% set %} block at work
};

// An error that says where in the template it came up; one that already does, or that the template
// raised, stays.
absl::Status Located(const absl::Status& status, Position position);
absl::Status RaisedByTemplate(std::string_view message);

}  // namespace baton::engine::jinja
