// stdout: results and nothing else. A full disk or a closed pipe is an error with exit code 73.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/base/status.h"

namespace baton::cli {

absl::Status Print(std::string_view text);  // and flushes
// One document and a line end, in ASCII: some readers take U+2028 for a line end. Text that is not
// UTF-8 becomes U+FFFD.
absl::Status PrintJson(const nlohmann::ordered_json& document);

// All bytes of stdin. Up to `limit_bytes`, else ResourceExhausted… as bad data.
absl::StatusOr<std::string> ReadStdin(size_t limit_bytes = size_t{1} << 30);
// A whole file; NotFound or Unknown with the system's reason.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

bool StdoutIsTerminal();
bool StderrIsTerminal();

}  // namespace baton::cli
