#include "engine/text/jinja/builtins.h"

#include "engine/text/jinja/interpreter.h"

namespace baton::engine::jinja {
namespace {

struct Parameter {
  std::string_view name;
  bool optional;
};

Parameter TakeParameter(std::string_view& parameters) {
  const size_t space = parameters.find(' ');
  std::string_view name = parameters.substr(0, space);
  parameters = space == std::string_view::npos ? "" : parameters.substr(space + 1);
  const bool optional = name.ends_with('?');
  if (optional) name.remove_suffix(1);
  return {name, optional};
}

absl::StatusOr<Arguments> Bind(const Builtin& builtin, Arguments given) {
  Arguments bound;
  size_t index = 0;
  for (std::string_view parameters = builtin.parameters; !parameters.empty(); ++index) {
    const Parameter parameter = TakeParameter(parameters);
    Value value;
    if (index < given.positional.size()) value = std::move(given.positional[index]);
    for (auto named = given.keyword.begin(); named != given.keyword.end(); ++named) {
      if (named->first != parameter.name) continue;
      if (!value.is_missing()) {
        return InvalidArgument("{}() got multiple values for argument '{}'", builtin.name,
                               parameter.name);
      }
      value = std::move(named->second);
      given.keyword.erase(named);
      break;
    }
    if (value.is_missing() && !parameter.optional) {
      return InvalidArgument("{}() missing the argument '{}'", builtin.name, parameter.name);
    }
    bound.positional.push_back(std::move(value));
  }
  if (given.positional.size() > index) {
    return InvalidArgument("{}() takes at most {} arguments ({} given)", builtin.name, index,
                           given.positional.size());
  }
  if (!given.keyword.empty()) {
    return InvalidArgument("{}() got an unexpected keyword argument '{}'", builtin.name,
                           given.keyword[0].first);
  }
  return bound;
}

}  // namespace

absl::StatusOr<Value> CallBuiltin(Interpreter& run, const Builtin& builtin, const Value& self,
                                  Arguments arguments) {
  RETURN_IF_ERROR(run.budget().Steps(1));
  if (builtin.parameters != "*") {
    ASSIGN_OR_RETURN(arguments, Bind(builtin, std::move(arguments)));
  }
  return builtin.call(run, self, arguments);
}

absl::StatusOr<int64_t> ToInteger(const Value& value) {
  if (value.is_undefined()) return InvalidArgument("{}", value.undefined_message());
  if (value.is_integral()) return value.integer();
  return InvalidArgument("'{}' object cannot be interpreted as an integer", value.type_name());
}

}  // namespace baton::engine::jinja
