// --jsonl: a JSON object a line in, one a line out.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace baton::cli {

using JsonLineFunction =
    std::function<absl::StatusOr<nlohmann::ordered_json>(const nlohmann::ordered_json&)>;

// Answers each line of stdin on stdout. The first line that is wrong ends it, with its number in
// the error.
absl::Status AnswerJsonLines(const JsonLineFunction& answer);

// One JSON value; InvalidArgument says where it stops being one.

// Fields of such an object; InvalidArgument names a field of a wrong kind.
absl::StatusOr<bool> BoolField(const nlohmann::ordered_json& object, const char* key, bool absent);
absl::StatusOr<std::string> StringField(const nlohmann::ordered_json& object, const char* key);

std::string ToHex(std::string_view bytes);
absl::StatusOr<std::string> FromHex(std::string_view hex);
bool IsUtf8(std::string_view text);

}  // namespace baton::cli
