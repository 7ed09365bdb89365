// The tables of what templates can call: filters, tests, methods of values, global functions. A new
// one is a row.
#pragma once

#include <span>
#include <string_view>

#include "engine/base/status.h"
#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

struct Builtin {
  using Function = absl::StatusOr<Value> (*)(Interpreter& run, const Value& self,
                                             const Arguments& arguments);

  std::string_view name;
  // Names in order, "?" after those that may be left out: "old new count?". "*": takes the
  // arguments as they come.
  std::string_view parameters;
  Function call;  // nullptr: known, but never to be called
};

const Builtin* FindFilter(std::string_view name);  // nullptr: none
const Builtin* FindTest(std::string_view name);
const Builtin* FindMethod(const Value& self, std::string_view name);
std::span<const Builtin> GlobalFunctions();

// Calls with the arguments bound to the parameters, and charges what comes back.
absl::StatusOr<Value> CallBuiltin(Interpreter& run, const Builtin& builtin, const Value& self,
                                  Arguments arguments);

// Python's int() of an argument that must be one: bool or int.
absl::StatusOr<int64_t> ToInteger(const Value& value);

}  // namespace baton::engine::jinja
