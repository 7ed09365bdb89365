// Errors as values: absl::Status for all that the outside can cause, built with fmt.
// A message says what, where, got, expected: "blk.3.attn_q.weight: shape [4096, 1024], expected
// [4096, 4096]".
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace baton {

// One maker for each code that baton uses, with what it means here; cli/exit_code.h maps them to
// exit codes.
#define BATON_DEFINE_STATUS_MAKER(Name)                                            \
  template <typename... Args>                                                      \
  [[nodiscard]] absl::Status Name(fmt::format_string<Args...> f, Args&&... args) { \
    return absl::Name##Error(fmt::format(f, std::forward<Args>(args)...));         \
  }
BATON_DEFINE_STATUS_MAKER(InvalidArgument)     // bad request, topology or flag value
BATON_DEFINE_STATUS_MAKER(DataLoss)            // corrupt or foreign file
BATON_DEFINE_STATUS_MAKER(Unimplemented)       // sound input that this build can't run
BATON_DEFINE_STATUS_MAKER(NotFound)            // no such file, worker or model
BATON_DEFINE_STATUS_MAKER(AlreadyExists)       // port in use, name taken
BATON_DEFINE_STATUS_MAKER(FailedPrecondition)  // not loaded, wrong version or model
BATON_DEFINE_STATUS_MAKER(ResourceExhausted)   // does not fit, queue full
BATON_DEFINE_STATUS_MAKER(Unavailable)         // peer not reachable or lost; may be tried again
BATON_DEFINE_STATUS_MAKER(PermissionDenied)
BATON_DEFINE_STATUS_MAKER(Unauthenticated)
BATON_DEFINE_STATUS_MAKER(DeadlineExceeded)
BATON_DEFINE_STATUS_MAKER(Cancelled)
BATON_DEFINE_STATUS_MAKER(Internal)  // our own bug
BATON_DEFINE_STATUS_MAKER(Unknown)   // the system refused: cannot write, cannot start
#undef BATON_DEFINE_STATUS_MAKER

// Debian's Abseil has its own string_view; ours is the standard one.
inline std::string_view Message(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// The same error with a place in front: "part 2: " + message.
inline absl::Status Prefixed(const absl::Status& status, std::string_view prefix) {
  if (status.ok()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", prefix, Message(status)));
}

}  // namespace baton

#define BATON_CONCAT_INNER(a, b) a##b
#define BATON_CONCAT(a, b) BATON_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                          \
  do {                                                       \
    if (absl::Status s_ = (expression); !s_.ok()) return s_; \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(BATON_CONCAT(status_or_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(status_or, target, expression) \
  auto status_or = (expression);                              \
  if (!status_or.ok()) return status_or.status();             \
  target = *std::move(status_or)
