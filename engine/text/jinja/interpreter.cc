#include "engine/text/jinja/interpreter.h"

#include <algorithm>
#include <ranges>

#include "engine/text/jinja/objects.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

constexpr std::string_view kLocated = "baton.jinja.located";

// What jinja2 says of something that an object lacks.
Value NoSuch(const Value& object, const Value& key) {
  std::string type(object.type_name());
  if (object.is_none()) {
    type = "None";
  } else if (object.is_object()) {
    type = fmt::format("jinja2.{} object", type);
  } else {
    type += " object";
  }
  if (key.is_string())
    return Value::UndefinedWith(fmt::format("'{}' has no attribute '{}'", type, key.view()));
  const std::string name =
      key.is_integral() ? std::to_string(key.integer()) : std::string(key.type_name());
  return Value::UndefinedWith(fmt::format("{} has no element {}", type, name));
}

absl::Status UseOfUndefined(const Value& value) {
  return InvalidArgument("{}", value.undefined_message());
}

}  // namespace

absl::Status Located(const absl::Status& status, Position position) {
  if (status.ok() || status.GetPayload({kLocated.data(), kLocated.size()}).has_value())
    return status;
  absl::Status located(status.code(), fmt::format("chat template: line {}, column {}: {}",
                                                  position.line, position.column, Message(status)));
  located.SetPayload({kLocated.data(), kLocated.size()}, absl::Cord());
  return located;
}

absl::Status RaisedByTemplate(std::string_view message) {
  absl::Status status = InvalidArgument("{}", message);
  status.SetPayload({kLocated.data(), kLocated.size()}, absl::Cord());
  return status;
}

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    for (const auto& [known, value] : scope->names_) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  for (auto& [known, old] : names_) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  names_.emplace_back(name, std::move(value));
}

// A scope for as long as it lives, and longer where a macro needs it.
class Interpreter::ScopeGuard {
 public:
  explicit ScopeGuard(Interpreter& run) : ScopeGuard(run, run.scope_) {}
  ScopeGuard(Interpreter& run, Scope* parent)
      : run_(run), caller_(run.scope_), scope_(std::make_unique<Scope>(parent)) {
    run_.scope_ = scope_.get();
  }
  ~ScopeGuard() {
    run_.scope_ = caller_;
    if (scope_->captured()) run_.captured_scopes_.push_back(std::move(scope_));
  }

 private:
  Interpreter& run_;
  Scope* caller_;
  std::unique_ptr<Scope> scope_;
};

// Output goes to `text` for as long as it lives.
class Interpreter::OutputGuard {
 public:
  OutputGuard(Interpreter& run, Text* text) : run_(run), outer_(run.output_) {
    run_.output_ = text;
  }
  ~OutputGuard() { run_.output_ = outer_; }

 private:
  Interpreter& run_;
  Text* outer_;
};

Interpreter::Interpreter(size_t input_bytes, std::tm now) : budget_(input_bytes), now_(now) {
  for (const Builtin& function : GlobalFunctions()) {
    objects_.push_back(std::make_unique<BoundBuiltin>(function, Value()));
    SetGlobal(std::string(function.name), Value(objects_.back().get()));
  }
}

absl::StatusOr<Text> Interpreter::Run(const Block& block) {
  Text text;
  const OutputGuard output(*this, &text);
  const ScopeGuard scope(*this);
  RETURN_IF_ERROR(Execute(block).status());
  return text;
}

// Statements.

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const Block& block) {
  for (const Statement& statement : block) {
    ASSIGN_OR_RETURN(const Flow flow, Execute(statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteScoped(const Block& block) {
  const ScopeGuard scope(*this);
  return Execute(block);
}

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const Statement& statement) {
  const Budget::Level level(budget_);
  RETURN_IF_ERROR(level.Check());
  RETURN_IF_ERROR(budget_.Steps(1));
  switch (statement.kind) {
    case Statement::Kind::kText:
      RETURN_IF_ERROR(budget_.Bytes(statement.text.size()));
      output_->Append(statement.text);
      break;
    case Statement::Kind::kOutput:
      for (const ExprPtr& expr : statement.expressions) {
        ASSIGN_OR_RETURN(const Value value, Evaluate(*expr));
        RETURN_IF_ERROR(Put(value));
      }
      break;
    case Statement::Kind::kIf:
      return ExecuteIf(statement);
    case Statement::Kind::kFor: {
      ASSIGN_OR_RETURN(const Value items, Evaluate(*statement.value));
      RETURN_IF_ERROR(Located(ExecuteFor(statement, items, 1), statement.value->position));
      break;
    }
    case Statement::Kind::kSet: {
      ASSIGN_OR_RETURN(Value value, Evaluate(*statement.value));
      RETURN_IF_ERROR(Located(Assign(*statement.target, std::move(value)), statement.position));
      break;
    }
    case Statement::Kind::kSetBlock: {
      ASSIGN_OR_RETURN(Value value, FilterBlock(statement));
      RETURN_IF_ERROR(Located(Assign(*statement.target, std::move(value)), statement.position));
      break;
    }
    case Statement::Kind::kFilter: {
      ASSIGN_OR_RETURN(const Value value, FilterBlock(statement));
      RETURN_IF_ERROR(Put(value));
      break;
    }
    case Statement::Kind::kMacro:
      RETURN_IF_ERROR(DefineMacro(statement));
      break;
    case Statement::Kind::kCall:
      RETURN_IF_ERROR(Located(ExecuteCall(statement), statement.position));
      break;
    case Statement::Kind::kWith:
      RETURN_IF_ERROR(ExecuteWith(statement));
      break;
    case Statement::Kind::kScope:
      return ExecuteScoped(statement.branches[0].body);
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteIf(const Statement& statement) {
  for (const Statement::Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      ASSIGN_OR_RETURN(const bool holds, EvaluateCondition(*branch.condition));
      if (!holds) continue;
    }
    return Execute(branch.body);
  }
  return Flow::kNext;
}

absl::Status Interpreter::ExecuteFor(const Statement& statement, const Value& items, int depth) {
  ASSIGN_OR_RETURN(Values all, Iterate(items));
  LoopFilter filter = nullptr;
  if (statement.condition != nullptr) {
    filter = [&, outer = scope_](const Value& item) -> absl::StatusOr<bool> {
      const ScopeGuard scope(*this, outer);
      RETURN_IF_ERROR(Assign(*statement.target, item));
      return EvaluateCondition(*statement.condition);
    };
  }
  ASSIGN_OR_RETURN(Loop* const loop, NewObject<Loop>(std::move(all), std::move(filter), depth));
  if (statement.recursive) {
    scope_->Capture();
    loop->MakeRecursive(&statement, scope_);
  }
  bool any = false;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, loop->Advance());
    if (!more) break;
    any = true;
    RETURN_IF_ERROR(budget_.Steps(1));
    const ScopeGuard scope(*this);
    scope_->Set("loop", Value(loop));
    RETURN_IF_ERROR(Assign(*statement.target, loop->current()));
    ASSIGN_OR_RETURN(const Flow flow, Execute(statement.branches[0].body));
    if (flow == Flow::kBreak) break;
  }
  loop->Finish();
  if (any || statement.branches.size() < 2) return absl::OkStatus();
  return ExecuteScoped(statement.branches[1].body).status();
}

absl::StatusOr<Value> Interpreter::RunLoopAgain(const Statement& loop, Scope* outer,
                                                const Value& items, int depth) {
  const Budget::Level level(budget_);
  RETURN_IF_ERROR(level.Check());
  Text text;
  const OutputGuard output(*this, &text);
  const ScopeGuard scope(*this, outer);
  RETURN_IF_ERROR(ExecuteFor(loop, items, depth));
  return MakeString(budget_, std::move(text));
}

absl::Status Interpreter::ExecuteWith(const Statement& statement) {
  Values values;
  for (size_t i = 1; i < statement.expressions.size(); i += 2) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*statement.expressions[i]));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    RETURN_IF_ERROR(Assign(*statement.expressions[2 * i], values[i]));
  }
  return Execute(statement.branches[0].body).status();
}

absl::Status Interpreter::ExecuteCall(const Statement& statement) {
  scope_->Capture();
  ASSIGN_OR_RETURN(MacroObject* const caller, NewObject<MacroObject>(*statement.macro, scope_));
  const Expr& call = *statement.value;
  ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.operands[0]));
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(call.call));
  arguments.keyword.emplace_back("caller", Value(caller));
  ASSIGN_OR_RETURN(const Value value, Call(callee, std::move(arguments)));
  return Put(value);
}

absl::StatusOr<Text> Interpreter::Capture(const Block& block) {
  Text text;
  const OutputGuard output(*this, &text);
  RETURN_IF_ERROR(ExecuteScoped(block).status());
  return text;
}

absl::StatusOr<Value> Interpreter::FilterBlock(const Statement& statement) {
  ASSIGN_OR_RETURN(const Text text, Capture(statement.branches[0].body));
  const Text* const outer = std::exchange(block_text_, &text);
  absl::StatusOr<Value> value = Evaluate(*statement.value);
  block_text_ = outer;
  return value;
}

absl::Status Interpreter::DefineMacro(const Statement& statement) {
  scope_->Capture();
  ASSIGN_OR_RETURN(MacroObject* const macro, NewObject<MacroObject>(*statement.macro, scope_));
  scope_->Set(statement.macro->name, Value(macro));
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::CallMacro(const Macro& macro, Scope* closure,
                                             Arguments arguments) {
  const Budget::Level level(budget_);
  RETURN_IF_ERROR(level.Check());
  const ScopeGuard scope(*this, closure);
  const auto take_keyword = [&](std::string_view name) {
    for (auto it = arguments.keyword.begin(); it != arguments.keyword.end(); ++it) {
      if (it->first != name) continue;
      Value value = std::move(it->second);
      arguments.keyword.erase(it);
      return value;
    }
    return Value();
  };
  const size_t first_default = macro.parameters.size() - macro.defaults.size();
  bool found_caller = false;
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const std::string& parameter = macro.parameters[i];
    found_caller |= parameter == "caller";
    Value value =
        i < arguments.positional.size() ? arguments.positional[i] : take_keyword(parameter);
    if (value.is_missing() && i >= first_default) {
      ASSIGN_OR_RETURN(value, Evaluate(*macro.defaults[i - first_default]));
    } else if (value.is_missing()) {
      value = Value::UndefinedWith(fmt::format("parameter '{}' was not provided", parameter));
    }
    scope_->Set(parameter, std::move(value));
  }
  if (macro.uses_caller && !found_caller) {
    Value caller = take_keyword("caller");
    if (caller.is_missing()) caller = Value::UndefinedWith("No caller defined");
    scope_->Set("caller", std::move(caller));
  }
  if (macro.uses_kwargs) {
    Dict kwargs;
    for (auto& [name, value] : arguments.keyword) kwargs.Set(Value::String(name), std::move(value));
    ASSIGN_OR_RETURN(Value value, MakeDict(budget_, std::move(kwargs)));
    scope_->Set("kwargs", std::move(value));
  } else if (!arguments.keyword.empty()) {
    return InvalidArgument("macro '{}' takes no keyword argument '{}'", macro.name,
                           arguments.keyword[0].first);
  }
  if (macro.uses_varargs) {
    Values rest(arguments.positional.begin() +
                    std::min(arguments.positional.size(), macro.parameters.size()),
                arguments.positional.end());
    ASSIGN_OR_RETURN(Value value, MakeSequence(budget_, std::move(rest), Sequence::Kind::kTuple));
    scope_->Set("varargs", std::move(value));
  } else if (arguments.positional.size() > macro.parameters.size()) {
    return InvalidArgument("macro '{}' takes not more than {} argument(s)", macro.name,
                           macro.parameters.size());
  }
  Text text;
  const OutputGuard output(*this, &text);
  RETURN_IF_ERROR(Execute(macro.body).status());
  return MakeString(budget_, std::move(text));
}

absl::Status Interpreter::Assign(const Expr& target, Value value) {
  if (target.kind == Expr::Kind::kName) {
    scope_->Set(target.name, std::move(value));
    return absl::OkStatus();
  }
  if (target.kind == Expr::Kind::kNamespace) return AssignAttribute(target, std::move(value));
  ASSIGN_OR_RETURN(Values items, Iterate(value));
  const size_t expected = target.operands.size();
  if (items.size() > expected) {
    return InvalidArgument("too many values to unpack (expected {})", expected);
  }
  if (items.size() < expected) {
    return InvalidArgument("not enough values to unpack (expected {}, got {})", expected,
                           items.size());
  }
  for (size_t i = 0; i < expected; ++i) {
    RETURN_IF_ERROR(Assign(*target.operands[i], std::move(items[i])));
  }
  return absl::OkStatus();
}

absl::Status Interpreter::AssignAttribute(const Expr& target, Value value) {
  const Value object = Lookup(target.name);
  Namespace* const space = object.is_object() ? dynamic_cast<Namespace*>(object.object()) : nullptr;
  if (space == nullptr) {
    return InvalidArgument("cannot assign attribute on non-namespace object");
  }
  RETURN_IF_ERROR(budget_.Bytes(sizeof(Value)));
  space->Set(target.attribute, std::move(value));
  return absl::OkStatus();
}

absl::Status Interpreter::Put(const Value& value) {
  if (value.is_string()) return Put(value.text());
  ASSIGN_OR_RETURN(const Text text, Str(value));
  return Put(text);
}

absl::Status Interpreter::Put(const Text& text) {
  RETURN_IF_ERROR(budget_.Bytes(text.size()));
  output_->Append(text);
  return absl::OkStatus();
}

// Expressions.

Value Interpreter::Lookup(std::string_view name) const {
  if (const Value* value = scope_->Find(name)) return *value;
  if (const auto found = globals_.find(std::string(name)); found != globals_.end()) {
    return found->second;
  }
  return Value::UndefinedWith(fmt::format("'{}' is undefined", name));
}

absl::StatusOr<Value> Interpreter::Evaluate(const Expr& expr) {
  const Budget::Level level(budget_);
  RETURN_IF_ERROR(level.Check());
  RETURN_IF_ERROR(budget_.Steps(1));
  absl::StatusOr<Value> value = EvaluateUnlocated(expr);
  if (!value.ok()) return Located(value.status(), expr.position);
  return value;
}

absl::StatusOr<bool> Interpreter::EvaluateCondition(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(expr));
  return value.truthy();
}

absl::StatusOr<Value> Interpreter::EvaluateUnlocated(const Expr& expr) {
  using Kind = Expr::Kind;
  switch (expr.kind) {
    case Kind::kConstant:
      return expr.constant;
    case Kind::kName:
      return Lookup(expr.name);
    case Kind::kBlockText:
      return MakeString(budget_, *block_text_);
    case Kind::kList:
    case Kind::kTuple: {
      ASSIGN_OR_RETURN(Values items, EvaluateAll(expr.operands));
      return MakeSequence(
          budget_, std::move(items),
          expr.kind == Kind::kList ? Sequence::Kind::kList : Sequence::Kind::kTuple);
    }
    case Kind::kDict:
      return EvaluateDict(expr);
    case Kind::kAttribute: {
      ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.operands[0]));
      return Attribute(object, expr.name);
    }
    case Kind::kItem:
      return EvaluateItem(expr);
    case Kind::kCall:
      return EvaluateCall(expr);
    case Kind::kFilter: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.operands[0]));
      ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(expr.call));
      return CallFilter(expr.name, value, std::move(arguments));
    }
    case Kind::kTest: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*expr.operands[0]));
      ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(expr.call));
      ASSIGN_OR_RETURN(const bool holds, CallTest(expr.name, value, std::move(arguments)));
      return Value(holds);
    }
    case Kind::kUnary: {
      ASSIGN_OR_RETURN(const Value operand, Evaluate(*expr.operands[0]));
      return ApplyUnary(expr.name, operand);
    }
    case Kind::kBinary: {
      ASSIGN_OR_RETURN(const Value left, Evaluate(*expr.operands[0]));
      ASSIGN_OR_RETURN(const Value right, Evaluate(*expr.operands[1]));
      return ApplyBinary(budget_, expr.name, left, right);
    }
    case Kind::kAnd:
    case Kind::kOr: {
      ASSIGN_OR_RETURN(Value left, Evaluate(*expr.operands[0]));
      if (left.truthy() == (expr.kind == Kind::kOr)) return left;
      return Evaluate(*expr.operands[1]);
    }
    case Kind::kCompare:
      return EvaluateCompare(expr);
    case Kind::kConcat:
      return EvaluateConcat(expr);
    case Kind::kConditional:
      return EvaluateConditional(expr);
    case Kind::kSlice:
    case Kind::kNamespace:
      break;  // never on their own
  }
  return Internal("an expression that has no value");
}

absl::StatusOr<Value> Interpreter::EvaluateDict(const Expr& expr) {
  Dict dict;
  for (size_t i = 0; i < expr.operands.size(); i += 2) {
    ASSIGN_OR_RETURN(const Value key, Evaluate(*expr.operands[i]));
    ASSIGN_OR_RETURN(Value value, Evaluate(*expr.operands[i + 1]));
    if (key.is_dict() || (key.is_sequence() && key.sequence().kind == Sequence::Kind::kList)) {
      return InvalidArgument("unhashable type: '{}'", key.type_name());
    }
    dict.Set(key, std::move(value));
  }
  return MakeDict(budget_, std::move(dict));
}

absl::StatusOr<Value> Interpreter::EvaluateItem(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value object, Evaluate(*expr.operands[0]));
  const Expr& subscript = *expr.operands[1];
  if (subscript.kind != Expr::Kind::kSlice) {
    ASSIGN_OR_RETURN(const Value key, Evaluate(subscript));
    return Item(object, key);
  }
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (subscript.operands[i] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], Evaluate(*subscript.operands[i]));
  }
  if (object.is_undefined()) return UseOfUndefined(object);
  if (object.is_string() || (object.is_sequence() && object.sequence().indexable())) {
    return Slice(budget_, object, bounds[0], bounds[1], bounds[2]);
  }
  return NoSuch(object, Value());
}

absl::StatusOr<Value> Interpreter::EvaluateCall(const Expr& expr) {
  const Expr& callee = *expr.operands[0];
  if (callee.kind != Expr::Kind::kAttribute) {
    ASSIGN_OR_RETURN(const Value function, Evaluate(callee));
    ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(expr.call));
    return Call(function, std::move(arguments));
  }
  // A method, called at once: no need to make an object of it.
  ASSIGN_OR_RETURN(const Value object, Evaluate(*callee.operands[0]));
  const Builtin* const method = FindMethod(object, callee.name);
  if (method != nullptr && method->call != nullptr) {
    ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(expr.call));
    return CallBuiltin(*this, *method, object, std::move(arguments));
  }
  ASSIGN_OR_RETURN(const Value function, Attribute(object, callee.name));
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(expr.call));
  return Call(function, std::move(arguments));
}

absl::StatusOr<Value> Interpreter::EvaluateCompare(const Expr& expr) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*expr.operands[0]));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*expr.operands[i + 1]));
    ASSIGN_OR_RETURN(const bool holds, ApplyComparison(budget_, expr.operators[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

absl::StatusOr<Value> Interpreter::EvaluateConcat(const Expr& expr) {
  Text text;
  for (const ExprPtr& operand : expr.operands) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*operand));
    ASSIGN_OR_RETURN(const Text part, Str(value));
    text.Append(part);
  }
  return MakeString(budget_, std::move(text));
}

absl::StatusOr<Value> Interpreter::EvaluateConditional(const Expr& expr) {
  ASSIGN_OR_RETURN(const bool holds, EvaluateCondition(*expr.operands[1]));
  if (holds) return Evaluate(*expr.operands[0]);
  if (expr.operands[2] != nullptr) return Evaluate(*expr.operands[2]);
  return Value::UndefinedWith(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                  "defined.",
                  expr.position.line));
}

absl::StatusOr<Values> Interpreter::EvaluateAll(const std::vector<ExprPtr>& exprs) {
  Values values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Arguments> Interpreter::EvaluateArguments(const CallArguments& call) {
  Arguments arguments;
  ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(call.positional));
  for (const auto& [name, expr] : call.keyword) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*expr));
    arguments.keyword.emplace_back(name, std::move(value));
  }
  if (call.spread != nullptr) {
    ASSIGN_OR_RETURN(const Value spread, Evaluate(*call.spread));
    ASSIGN_OR_RETURN(const Values values, Iterate(spread));
    arguments.positional.insert(arguments.positional.end(), values.begin(), values.end());
  }
  if (call.spread_keywords != nullptr) {
    ASSIGN_OR_RETURN(const Value spread, Evaluate(*call.spread_keywords));
    if (!spread.is_dict()) return InvalidArgument("argument after ** must be a mapping");
    for (const auto& [key, value] : spread.dict().items()) {
      if (!key.is_string()) return InvalidArgument("keywords must be strings");
      arguments.keyword.emplace_back(key.view(), value);
    }
  }
  return arguments;
}

// What builtins work with.

absl::StatusOr<Value> Interpreter::Attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) return UseOfUndefined(object);
  if (const Builtin* method = FindMethod(object, name)) {
    if (method->call == nullptr) {
      return Value::UndefinedWith(fmt::format("access to attribute '{}' of '{}' object is unsafe.",
                                              name, object.type_name()));
    }
    ASSIGN_OR_RETURN(BoundBuiltin* const bound, NewObject<BoundBuiltin>(*method, object));
    return Value(bound);
  }
  if (object.is_object()) {
    ASSIGN_OR_RETURN(Value value, object.object()->Attribute(*this, name));
    if (!value.is_missing()) return value;
  }
  if (object.is_sequence() && object.sequence().kind == Sequence::Kind::kGroup) {
    if (name == "grouper") return object.sequence().items[0];
    if (name == "list") return object.sequence().items[1];
  }
  if (object.is_dict()) {
    if (const Value* value = object.dict().Find(name)) return *value;
  }
  return NoSuch(object, Value::String(name));
}

absl::StatusOr<Value> Interpreter::Item(const Value& object, const Value& key) {
  if (object.is_undefined()) return UseOfUndefined(object);
  if (object.is_dict()) {
    if (const Value* value = object.dict().Find(key)) return *value;
  } else if (key.is_integral() && (object.is_string() || object.is_sequence())) {
    if (object.is_sequence() && !object.sequence().indexable()) return NoSuch(object, key);
    const size_t length =
        object.is_string() ? CountCodePoints(object.view()) : object.sequence().items.size();
    int64_t index = key.integer();
    if (index < 0) index += static_cast<int64_t>(length);
    if (index < 0 || index >= static_cast<int64_t>(length)) return NoSuch(object, key);
    if (object.is_sequence()) return object.sequence().items[index];
    RETURN_IF_ERROR(budget_.Steps(static_cast<int64_t>(object.view().size() / 16)));
    const size_t offset = OffsetOf(object.view(), index);
    return Value(object.text().Slice(offset, offset + DecodeAt(object.view(), offset).size));
  }
  if (key.is_string()) {
    // object["name"] falls back to object.name.
    if (FindMethod(object, key.view()) != nullptr || object.is_object() || object.is_sequence()) {
      return Attribute(object, key.view());
    }
  }
  return NoSuch(object, key);
}

absl::StatusOr<Value> Interpreter::Call(const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) return UseOfUndefined(callee);
  if (!callee.is_object()) {
    return InvalidArgument("'{}' object is not callable", callee.type_name());
  }
  return callee.object()->Call(*this, std::move(arguments));
}

absl::StatusOr<Value> Interpreter::CallFilter(std::string_view name, const Value& value,
                                              Arguments arguments) {
  const Builtin* const filter = FindFilter(name);
  if (filter == nullptr) return InvalidArgument("No filter named '{}'.", name);
  return CallBuiltin(*this, *filter, value, std::move(arguments));
}

absl::StatusOr<bool> Interpreter::CallTest(std::string_view name, const Value& value,
                                           Arguments arguments) {
  const Builtin* const test = FindTest(name);
  if (test == nullptr) return InvalidArgument("No test named '{}'.", name);
  ASSIGN_OR_RETURN(const Value holds, CallBuiltin(*this, *test, value, std::move(arguments)));
  return holds.truthy();
}

absl::StatusOr<Values> Interpreter::Iterate(const Value& value) {
  Values items;
  if (value.is_sequence()) {
    Sequence& sequence = value.sequence();
    RETURN_IF_ERROR(budget_.Steps(static_cast<int64_t>(sequence.items.size() / 8)));
    if (sequence.kind != Sequence::Kind::kIterator) return sequence.items;
    items.assign(sequence.items.begin() + sequence.consumed, sequence.items.end());
    sequence.consumed = sequence.items.size();
  } else if (value.is_dict()) {
    RETURN_IF_ERROR(budget_.Steps(static_cast<int64_t>(value.dict().size() / 8)));
    for (const auto& [key, item] : value.dict().items()) items.push_back(key);
  } else if (value.is_string()) {
    const Text& text = value.text();
    RETURN_IF_ERROR(budget_.Bytes(text.size() * (sizeof(Value) + sizeof(Text))));
    for (size_t i = 0; i < text.size();) {
      const size_t size = DecodeAt(text.view(), i).size;
      items.push_back(Value(text.Slice(i, i + size)));
      i += size;
    }
  } else if (value.is_object()) {
    if (Loop* loop = dynamic_cast<Loop*>(value.object())) return loop->TakeRest();
    return InvalidArgument("'{}' object is not iterable", value.type_name());
  } else if (!value.is_undefined()) {
    return InvalidArgument("'{}' object is not iterable", value.type_name());
  }
  return items;
}

}  // namespace baton::engine::jinja
