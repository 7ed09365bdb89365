#include "cli/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "cli/exit_code.h"

namespace baton::cli {
namespace {

std::function<std::vector<std::string>(const std::optional<ReadyLine>&)> Shell(std::string script) {
  return [script = std::move(script)](const auto& last) {
    return std::vector<std::string>{"/bin/sh", "-c", script, "sh", last ? last->grpc : "first"};
  };
}

TEST(ReadyLineTest, FormatAndParseAreInverse) {
  const auto both =
      ParseReadyLine(FormatReadyLine({.grpc = "127.0.0.1:7070", .http = "127.0.0.1:8080"}));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->grpc, "127.0.0.1:7070");
  EXPECT_EQ(both->http, "127.0.0.1:8080");
  EXPECT_EQ(ParseReadyLine("ready grpc=[::1]:1")->http, "");
  EXPECT_FALSE(ParseReadyLine("12:00:00 info ready"));
}

TEST(SupervisorTest, WaitsForReadyLinesAndStopsAll) {
  Supervisor supervisor;
  ASSERT_TRUE(
      supervisor.Start({.name = "a", .command = Shell("echo ready grpc=a:1 >&2; exec sleep 60")})
          .ok());
  ASSERT_TRUE(
      supervisor
          .Start({.name = "b", .command = Shell("sleep 0.1; echo ready grpc=b:2; exec sleep 60")})
          .ok());
  ASSERT_TRUE(supervisor.WaitUntilReady(absl::Seconds(20)).ok());
  EXPECT_EQ(supervisor.ready("a").grpc, "a:1");
  EXPECT_EQ(supervisor.ready("b").grpc, "b:2");
  supervisor.Stop();
}

TEST(SupervisorTest, AProgramThatEndsEarlyIsAnErrorWithItsWordsAndCode) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor
                  .Start({.name = "a",
                          .command = Shell("echo 'baton: error: port 1 is taken' >&2; exit 77")})
                  .ok());
  const absl::Status status = supervisor.WaitUntilReady(absl::Seconds(20));
  EXPECT_EQ(ExitCodeOf(status), 77);
  EXPECT_THAT(std::string(Message(status)), ::testing::HasSubstr("a: port 1 is taken"));
}

TEST(SupervisorTest, WhatASystemSaysOfAProgramThatCannotStartIsNotLost) {
  Supervisor supervisor;
  ASSERT_TRUE(
      supervisor.Start({.name = "a", .command = Shell("echo libx.so: no such file >&2; exit 127")})
          .ok());
  const absl::Status status = supervisor.WaitUntilReady(absl::Seconds(20));
  EXPECT_EQ(ExitCodeOf(status), 127);
  EXPECT_THAT(std::string(Message(status)),
              ::testing::HasSubstr("127 before it was ready: libx.so"));
}

TEST(SupervisorTest, OneThatNeverGetsReadyIsNamed) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start({.name = "slow", .command = Shell("exec sleep 60")}).ok());
  const absl::Status status = supervisor.WaitUntilReady(absl::Milliseconds(300));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(Message(status)), ::testing::HasSubstr("slow"));
}

TEST(SupervisorTest, WhatDiesIsStartedAgainAtItsOldAddress) {
  Supervisor supervisor;
  // The second run learns where the first one was, says so, and ends us.
  const std::string script =
      "if [ \"$1\" = first ]; then echo ready grpc=old:1; exit 3; fi; echo ready "
      "grpc=\"$1\"-again; kill -TERM $PPID; exec sleep 60";
  ASSERT_TRUE(supervisor.Start({.name = "a", .command = Shell(script)}).ok());
  ASSERT_TRUE(supervisor.WaitUntilReady(absl::Seconds(20)).ok());
  EXPECT_TRUE(absl::IsCancelled(supervisor.Run()));
  EXPECT_EQ(supervisor.ready("a").grpc, "old:1-again");
}

}  // namespace
}  // namespace baton::cli
