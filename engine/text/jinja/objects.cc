#include "engine/text/jinja/objects.h"

#include "engine/text/jinja/interpreter.h"

namespace baton::engine::jinja {

absl::StatusOr<Value> Namespace::Attribute(Interpreter&, std::string_view name) {
  const Value* value = names_.Find(name);
  return value != nullptr ? *value : Value();
}

absl::StatusOr<Value> Loop::Pull() {
  while (pulled_ < items_.size()) {
    const Value& item = items_[pulled_++];
    if (filter_ == nullptr) return item;
    ASSIGN_OR_RETURN(const bool wanted, filter_(item));
    if (wanted) return item;
  }
  return Value();
}

absl::StatusOr<Value> Loop::Peek() {
  if (pending_.empty()) {
    ASSIGN_OR_RETURN(Value item, Pull());
    if (item.is_missing()) return item;
    pending_.push_back(std::move(item));
  }
  return pending_.front();
}

absl::StatusOr<bool> Loop::Advance() {
  ASSIGN_OR_RETURN(Value next, Peek());
  if (next.is_missing()) return false;
  pending_.pop_front();
  previous_ = std::move(current_);
  current_ = std::move(next);
  ++index0_;
  return true;
}

absl::StatusOr<Values> Loop::TakeRest() {
  Values rest;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, Advance());
    if (!more) return rest;
    rest.push_back(current_);
  }
}

absl::StatusOr<size_t> Loop::Length() {
  if (filter_ == nullptr && pending_.empty()) return items_.size() - pulled_ + index0_ + 1;
  while (true) {
    ASSIGN_OR_RETURN(Value item, Pull());
    if (item.is_missing()) break;
    pending_.push_back(std::move(item));
  }
  return index0_ + 1 + pending_.size();
}

absl::StatusOr<Value> Loop::Attribute(Interpreter&, std::string_view name) {
  if (name == "index0") return Value(index0_);
  if (name == "index") return Value(index0_ + 1);
  if (name == "first") return Value(index0_ == 0);
  if (name == "depth") return Value(depth_);
  if (name == "depth0") return Value(depth_ - 1);
  if (name == "previtem") {
    return index0_ > 0 ? previous_ : Value::UndefinedWith("there is no previous item");
  }
  if (name == "last" || name == "nextitem") {
    ASSIGN_OR_RETURN(Value next, Peek());
    if (name == "last") return Value(next.is_missing());
    return next.is_missing() ? Value::UndefinedWith("there is no next item") : next;
  }
  if (name != "length" && name != "revindex" && name != "revindex0") return Value();
  ASSIGN_OR_RETURN(const size_t length, Length());
  if (name == "length") return Value(length);
  return Value(static_cast<int64_t>(length) - index0_ - (name == "revindex0" ? 1 : 0));
}

absl::StatusOr<bool> Loop::Changed(Budget& budget, Values values) {
  ASSIGN_OR_RETURN(Value now, MakeSequence(budget, std::move(values), Sequence::Kind::kTuple));
  ASSIGN_OR_RETURN(const bool same, Equal(budget, last_changed_, now));
  if (!same) last_changed_ = std::move(now);
  return !same;
}

absl::StatusOr<Value> Loop::Call(Interpreter& run, Arguments arguments) {
  if (statement_ == nullptr) {
    return InvalidArgument("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.keyword.empty()) {
    return InvalidArgument("a loop is called with the items to loop over");
  }
  return run.RunLoopAgain(*statement_, scope_, arguments.positional[0], depth_ + 1);
}

absl::StatusOr<Value> MacroObject::Call(Interpreter& run, Arguments arguments) {
  return run.CallMacro(macro_, closure_, std::move(arguments));
}

absl::StatusOr<Value> MacroObject::Attribute(Interpreter& run, std::string_view name) {
  if (name == "name") return Value::String(macro_.name);
  if (name == "catch_kwargs") return Value(macro_.uses_kwargs);
  if (name == "catch_varargs") return Value(macro_.uses_varargs);
  if (name == "caller") return Value(macro_.uses_caller);
  if (name != "arguments") return Value();
  Values names;
  for (const std::string& parameter : macro_.parameters) names.push_back(Value::String(parameter));
  return MakeSequence(run.budget(), std::move(names), Sequence::Kind::kTuple);
}

absl::StatusOr<Value> Cycler::Attribute(Interpreter&, std::string_view name) {
  return name == "current" ? items_[at_] : Value();
}

Value Cycler::Next() {
  const Value value = items_[at_];
  at_ = (at_ + 1) % items_.size();
  return value;
}

absl::StatusOr<Value> Joiner::Call(Interpreter&, Arguments) {
  return std::exchange(used_, true) ? separator_ : Value::String("");
}

}  // namespace baton::engine::jinja
