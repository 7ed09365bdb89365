// JSON from outside: request bodies, messages, schemas, what a model wrote.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace baton::engine {

inline constexpr int kMaxJsonDepth = 64;

// Bounds the nesting, which the library does not: it parses any depth, and then overflows the stack
// when it writes or copies what it has parsed. InvalidArgument begins with `what`. Any thread.
absl::StatusOr<nlohmann::ordered_json> ParseJson(std::string_view text, std::string_view what);

// On one line; bytes that are no UTF-8 become U+FFFD.
std::string JsonText(const nlohmann::ordered_json& document);

}  // namespace baton::engine
