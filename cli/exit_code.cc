#include "cli/exit_code.h"

#include <absl/strings/cord.h>

#include <charconv>
#include <optional>

namespace baton::cli {
namespace {

constexpr char kExitCodePayload[] = "baton.exit_code";
constexpr char kHintPayload[] = "baton.hint";

struct CodeRow {
  absl::StatusCode status;
  ExitCode exit;
};
constexpr CodeRow kExitCodes[] = {
    {absl::StatusCode::kOk, kDone},
    {absl::StatusCode::kInvalidArgument, kBadData},
    {absl::StatusCode::kOutOfRange, kBadData},
    {absl::StatusCode::kDataLoss, kBadData},
    {absl::StatusCode::kUnimplemented, kBadData},
    {absl::StatusCode::kFailedPrecondition, kBadData},
    {absl::StatusCode::kNotFound, kNoSuchFile},
    {absl::StatusCode::kUnavailable, kUnreachable},
    {absl::StatusCode::kInternal, kOwnBug},
    {absl::StatusCode::kResourceExhausted, kOverloaded},
    {absl::StatusCode::kPermissionDenied, kNotAllowed},
    {absl::StatusCode::kUnauthenticated, kNotAllowed},
    {absl::StatusCode::kDeadlineExceeded, kDeadline},
    {absl::StatusCode::kCancelled, kInterrupted},
};

std::optional<std::string> PayloadOf(const absl::Status& status, const char* url) {
  auto payload = status.GetPayload(url);
  if (!payload) return std::nullopt;
  return std::string(*payload);
}

}  // namespace

int ExitCodeOf(const absl::Status& status) {
  if (auto given = PayloadOf(status, kExitCodePayload)) {
    int code = kFailed;
    std::from_chars(given->data(), given->data() + given->size(), code);
    return code;
  }
  for (const CodeRow& row : kExitCodes) {
    if (row.status == status.code()) return row.exit;
  }
  return kFailed;
}

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  if (!status.ok()) status.SetPayload(kExitCodePayload, absl::Cord(std::to_string(code)));
  return status;
}

absl::Status WithHint(absl::Status status, std::string_view hint) {
  if (!status.ok()) status.SetPayload(kHintPayload, absl::Cord(std::string(hint)));
  return status;
}

std::string HintOf(const absl::Status& status) {
  return PayloadOf(status, kHintPayload).value_or("");
}

absl::Status AsBadData(absl::Status status) {
  return absl::IsNotFound(status) ? WithExitCode(std::move(status), kBadData) : status;
}

}  // namespace baton::cli
