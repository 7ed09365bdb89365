#include "cli/exit_code.h"

#include <gtest/gtest.h>

namespace baton::cli {
namespace {

TEST(ExitCodeTest, EachKindOfErrorHasItsCode) {
  const std::pair<absl::Status, ExitCode> kCases[] = {
      {absl::OkStatus(), kDone},
      {InvalidArgument("x"), kBadData},
      {DataLoss("x"), kBadData},
      {Unimplemented("x"), kBadData},
      {NotFound("x"), kNoSuchFile},
      {Unavailable("x"), kUnreachable},
      {Internal("x"), kOwnBug},
      {ResourceExhausted("x"), kOverloaded},
      {PermissionDenied("x"), kNotAllowed},
      {DeadlineExceeded("x"), kDeadline},
      {Cancelled("x"), kInterrupted},
      {Unknown("x"), kFailed},
      {UsageError("x"), kUsage},
      {CannotWrite("x"), kCannotWrite},
      {AsBadData(NotFound("x")), kBadData},
      {AsBadData(Unavailable("x")), kUnreachable},
  };
  for (const auto& [status, code] : kCases) EXPECT_EQ(ExitCodeOf(status), code) << status;
}

TEST(ExitCodeTest, HintTravelsWithTheError) {
  const absl::Status status = WithHint(UsageError("--stages: got {}", 0), "try 1");
  EXPECT_EQ(HintOf(status), "try 1");
  EXPECT_EQ(ExitCodeOf(status), kUsage);
  EXPECT_EQ(Message(status), "--stages: got 0");
  EXPECT_EQ(HintOf(UsageError("x")), "");
}

}  // namespace
}  // namespace baton::cli
