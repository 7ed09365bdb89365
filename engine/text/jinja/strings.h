// String work shared by filters and methods. Everything keeps the marks of data.
#pragma once

#include <optional>
#include <string_view>

#include "engine/base/status.h"
#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

enum class Side { kLeft = 1, kRight = 2, kBoth = 3 };

// Python's strip: white space, or any of `chars`.
Text Strip(const Text& text, std::optional<std::string_view> chars, Side side);
// The first `count` occurrences; negative: all.
absl::StatusOr<Text> Replace(Budget& budget, const Text& text, std::string_view from,
                             const Text& to, int64_t count);
// At most `count` splits, counted from the left or the right; negative: all. No separator: runs of
// white space.
absl::StatusOr<Values> Split(Budget& budget, const Text& text,
                             std::optional<std::string_view> separator, int64_t count,
                             bool from_right);
absl::StatusOr<Values> SplitLines(Budget& budget, const Text& text, bool keep_ends);
absl::StatusOr<Text> Join(Interpreter& run, const Text& separator, const Values& items,
                          bool strings_only);
// Padding to `width` characters; Side says where the text is put.
absl::StatusOr<Text> Pad(Budget& budget, const Text& text, int64_t width, std::string_view fill,
                         Side text_side);

Text ToUpper(const Text& text);
Text ToLower(const Text& text);
Text Capitalize(const Text& text);

// Python's int(text, base) and float(text).
std::optional<int64_t> ParseInteger(std::string_view text, int base);
std::optional<double> ParseFloat(std::string_view text);

}  // namespace baton::engine::jinja
