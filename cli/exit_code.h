// Exit codes that scripts rely on, and how an error gets one.
//
// Most errors have one by their status code alone. Where the place knows better (a bad flag, an
// output that cannot be written), it says so with WithExitCode.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace baton::cli {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 64,
  kBadData = 65,  // model, topology or input
  kNoSuchFile = 66,
  kUnreachable = 69,  // worker or coordinator not there, or lost
  kOwnBug = 70,
  kCannotWrite = 73,
  kOverloaded = 75,  // may be tried again
  kNotAllowed = 77,
  kDeadline = 124,
  kInterrupted = 130,
};

// How the line of an error begins, for people and for the processes that have started others.
inline constexpr std::string_view kErrorPrefix = "baton: error: ";

int ExitCodeOf(const absl::Status& status);

// The same error with a fixed exit code; OK stays OK.
absl::Status WithExitCode(absl::Status status, ExitCode code);
// The same error with a line that says what to do: "hint: …".
absl::Status WithHint(absl::Status status, std::string_view hint);
std::string HintOf(const absl::Status& status);  // "": none

// Errors of a kind that has no status code of its own.
template <typename... Args>
[[nodiscard]] absl::Status UsageError(fmt::format_string<Args...> f, Args&&... args) {
  return WithExitCode(absl::InvalidArgumentError(fmt::format(f, std::forward<Args>(args)...)),
                      kUsage);
}
template <typename... Args>
[[nodiscard]] absl::Status CannotWrite(fmt::format_string<Args...> f, Args&&... args) {
  return WithExitCode(absl::UnknownError(fmt::format(f, std::forward<Args>(args)...)),
                      kCannotWrite);
}

// A file was opened, so whatever is "not found" now is something in it: bad data, not a missing
// file.
absl::Status AsBadData(absl::Status status);

}  // namespace baton::cli
