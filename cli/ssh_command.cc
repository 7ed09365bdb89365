#include "cli/ssh_command.h"

#include <absl/time/clock.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "cli/child_process.h"
#include "cli/exit_code.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

constexpr std::string_view kScheme = "ssh://";
// BATON_SSH names another program or a wrapper, as GIT_SSH does.
constexpr char kSsh[] = "/usr/bin/ssh";
constexpr absl::Duration kCopyTimeout = absl::Minutes(5);

struct SshPlace {
  std::string target;
  std::string port;
  std::string program = "baton";
};

SshPlace ParsePlace(std::string_view launch) {
  if (launch.starts_with(kScheme)) launch.remove_prefix(kScheme.size());
  SshPlace place;
  if (const size_t path = launch.find('/'); path != launch.npos) {
    place.program = launch.substr(path);
    launch = launch.substr(0, path);
  }
  // The colon of a port, not one inside an IPv6 address.
  const size_t colon = launch.rfind(':');
  if (colon != launch.npos && launch.find(':') == colon) {
    place.port = launch.substr(colon + 1);
    launch = launch.substr(0, colon);
  }
  place.target = launch;
  return place;
}

std::string SshPath() {
  const char* other = std::getenv("BATON_SSH");
  return other != nullptr && *other != '\0' ? other : kSsh;
}

std::vector<std::string> Connect(const SshPlace& place) {
  std::vector<std::string> command = {SshPath(),           "-o", "BatchMode=yes",        "-o",
                                      "ConnectTimeout=10", "-o", "ServerAliveInterval=5"};
  if (!place.port.empty()) command.insert(command.end(), {"-p", place.port});
  return command;
}

// To its end; the last line that it said goes into the error.
absl::Status RunToEnd(const std::vector<std::string>& command, absl::Duration timeout) {
  ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(command));
  const absl::Time deadline = SteadyNow() + timeout;
  std::string last;
  const auto read = [&] {
    for (const std::string& line : child.ReadLines()) {
      if (!line.empty()) last = line;
    }
  };
  while (SteadyNow() < deadline) {
    read();
    if (const std::optional<int> code = child.Reap()) {
      read();
      if (*code == 0) return absl::OkStatus();
      return Unavailable("{} says: {}", command[0],
                         last.empty() ? fmt::format("exit code {}", *code) : last);
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return DeadlineExceeded("{}: no end after {}", command[0], absl::FormatDuration(timeout));
}

}  // namespace

std::string ShellQuoted(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string SshTarget(std::string_view launch) { return ParsePlace(launch).target; }
std::string SshProgram(std::string_view launch) { return ParsePlace(launch).program; }

std::vector<std::string> SshCommand(std::string_view launch,
                                    const std::vector<std::string>& command) {
  const SshPlace place = ParsePlace(launch);
  // Without colours, though it sees a terminal: its words may go to a file here.
  std::string line = "exec env TERM=dumb";
  for (const std::string& word : command) line += " " + ShellQuoted(word);
  std::vector<std::string> words = Connect(place);
  // A terminal, so that the command hears when the connection ends; "--": a host is no flag.
  words.insert(words.end(), {"-tt", "--", place.target, line});
  return words;
}

absl::Status TrySsh(std::string_view launch, absl::Duration timeout) {
  const SshPlace place = ParsePlace(launch);
  std::vector<std::string> words = Connect(place);
  words.insert(words.end(), {"--", place.target, "true"});
  return RunToEnd(words, timeout);
}

absl::Status CopyOurselves(std::string_view launch, std::string_view path) {
  const SshPlace place = ParsePlace(launch);
  std::string ssh;
  for (const std::string& word : Connect(place)) ssh += ShellQuoted(word) + " ";
  // $HOME is for the shell there; the rest of the path is ours and quoted.
  const std::string there = ShellQuoted(path);
  const std::string receive = fmt::format(
      "f={0}; test -x \"$f\" || {{ mkdir -p \"$(dirname \"$f\")\" && cat > \"$f.$$\" && "
      "chmod 755 \"$f.$$\" && mv \"$f.$$\" \"$f\"; }}",
      there);
  const std::string line = fmt::format("exec {}-- {} {} < /proc/{}/exe", ssh,
                                       ShellQuoted(place.target), ShellQuoted(receive), getpid());
  return Prefixed(RunToEnd({"/bin/sh", "-c", line}, kCopyTimeout),
                  fmt::format("copying baton to {}", place.target));
}

}  // namespace baton::cli
