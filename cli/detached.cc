#include "cli/detached.h"

#include <absl/time/clock.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/ready_line.h"
#include "engine/base/steady_time.h"
#include "engine/base/user_folders.h"

namespace baton::cli {
namespace fs = std::filesystem;
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);
constexpr absl::Duration kStopTimeout = absl::Seconds(60);

std::string StateFolder(const std::string& topology_file) {
  const std::string state = engine::StateFolder();
  const fs::path base = state.empty() ? engine::CacheFolder() : state;
  std::error_code ignored;
  const std::string file = fs::absolute(topology_file, ignored).lexically_normal();
  return base / fmt::format("up-{:016x}", std::hash<std::string>()(file));
}
std::string PidFile(const std::string& folder) { return folder + "/pid"; }
std::string LogFile(const std::string& folder) { return folder + "/log"; }

// A process of that id that is this program; ids come again.
std::optional<pid_t> RunningPid(const std::string& folder) {
  pid_t pid = 0;
  std::ifstream(PidFile(folder)) >> pid;
  if (pid <= 0) return std::nullopt;
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  constexpr std::string_view kUp("\0up\0", 4);
  return line.find(kUp) == std::string::npos ? std::nullopt : std::optional(pid);
}

// Lines of a file that grows.
class LogReader {
 public:
  explicit LogReader(const std::string& path) : file_(path, std::ios::binary) {}
  std::optional<std::string> Next() {
    while (true) {
      const int c = file_.get();
      if (c == EOF) {
        file_.clear();
        return std::nullopt;
      }
      if (c == '\n') return std::exchange(line_, {});
      line_ += static_cast<char>(c);
    }
  }

 private:
  std::ifstream file_;
  std::string line_;
};

[[noreturn]] void BecomeDaemon(char* const* argv, int log) {
  setsid();
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", argv);
  _exit(127);
}

absl::StatusOr<pid_t> Spawn(const std::string& folder, const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>("baton")};
  for (const std::string& word : arguments) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int log = open(LogFile(folder).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log < 0) return CannotWrite("{}: {}", LogFile(folder), std::strerror(errno));
  const pid_t pid = fork();
  if (pid == 0) BecomeDaemon(argv.data(), log);
  close(log);
  if (pid < 0) return Unknown("cannot start: {}", std::strerror(errno));
  std::ofstream(PidFile(folder)) << pid << '\n';
  return pid;
}

}  // namespace

absl::Status StartDetached(const std::string& topology_file,
                           const std::vector<std::string>& arguments) {
  const std::string folder = StateFolder(topology_file);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return CannotWrite("{}: {}", folder, error.message());
  if (const auto pid = RunningPid(folder)) {
    return WithHint(FailedPrecondition("{}: it is up already, process {}", topology_file, *pid),
                    "baton down -f " + topology_file);
  }
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(folder, arguments));
  LogReader log(LogFile(folder));
  std::string last_error = "it ended before it was ready";
  while (true) {
    int how = 0;
    const bool ended = waitpid(pid, &how, WNOHANG) == pid;
    while (const auto line = log.Next()) {
      std::fprintf(stderr, "%s\n", line->c_str());
      if (ParseReadyLine(*line)) return absl::OkStatus();
      if (line->starts_with(kErrorPrefix)) last_error = line->substr(kErrorPrefix.size());
    }
    if (ended) {
      std::error_code ignored;
      fs::remove(PidFile(folder), ignored);
      const int code = WIFEXITED(how) ? WEXITSTATUS(how) : kFailed;
      return WithExitCode(Unavailable("{}", last_error),
                          code == 0 ? kFailed : static_cast<ExitCode>(code));
    }
    absl::SleepFor(kPoll);
  }
}

absl::Status StopDetached(const std::string& topology_file) {
  const std::string folder = StateFolder(topology_file);
  const auto pid = RunningPid(folder);
  if (!pid) return NotFound("{}: nothing runs that `baton up --detach` started", topology_file);
  if (kill(*pid, SIGTERM) != 0) return Unknown("process {}: {}", *pid, std::strerror(errno));
  const absl::Time deadline = SteadyNow() + kStopTimeout;
  while (RunningPid(folder)) {
    if (SteadyNow() > deadline) {
      return DeadlineExceeded("process {} has not ended in {}", *pid,
                              absl::FormatDuration(kStopTimeout));
    }
    absl::SleepFor(kPoll);
  }
  std::error_code ignored;
  fs::remove(PidFile(folder), ignored);
  return absl::OkStatus();
}

absl::Status PrintDetachedLog(const std::string& topology_file, std::string_view program,
                              bool follow) {
  const std::string file = LogFile(StateFolder(topology_file));
  if (std::error_code ignored; !fs::exists(file, ignored)) {
    return NotFound("{}: `baton up --detach` has not run with it", topology_file);
  }
  const std::string prefix = fmt::format("{} | ", program);
  LogReader log(file);
  while (true) {
    while (const auto line = log.Next()) {
      if (program.empty() || line->starts_with(prefix)) RETURN_IF_ERROR(Print(*line + "\n"));
    }
    if (!follow) return absl::OkStatus();
    absl::SleepFor(kPoll);
  }
}

}  // namespace baton::cli
