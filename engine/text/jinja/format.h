// Python's two ways to format: "%s of %d" % values, and "{} of {}".format(...).
#pragma once

#include "engine/base/status.h"
#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

// `values`: a tuple, a dict for "%(name)s", or one value.
absl::StatusOr<Value> FormatPercent(Budget& budget, const Text& format, const Value& values);
absl::StatusOr<Value> FormatBraces(Interpreter& run, const Text& format,
                                   const Arguments& arguments);

}  // namespace baton::engine::jinja
