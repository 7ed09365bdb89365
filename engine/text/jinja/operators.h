// Operators on values, with Python's meaning.
#pragma once

#include <optional>
#include <string_view>

#include "engine/base/status.h"
#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

absl::StatusOr<Value> ApplyUnary(std::string_view op, const Value& operand);  // + - not
absl::StatusOr<Value> ApplyBinary(Budget& budget, std::string_view op, const Value& a,
                                  const Value& b);  // + - * / // % **
absl::StatusOr<bool> ApplyComparison(Budget& budget, std::string_view op, const Value& a,
                                     const Value& b);  // == != < <= > >= in, not in
absl::StatusOr<bool> IsIn(Budget& budget, const Value& item, const Value& container);

// value[begin:end:step] of a string, list or tuple; a bound not given is Missing or None.
absl::StatusOr<Value> Slice(Budget& budget, const Value& value, const Value& begin,
                            const Value& end, const Value& step);

Text EscapeHtml(const Text& text);

}  // namespace baton::engine::jinja
