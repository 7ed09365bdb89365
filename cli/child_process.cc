#include "cli/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace baton::cli {
namespace {

// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void Become(char* const* argv, int output, int input, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it died in between
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  setpgid(0, 0);  // Ctrl-C goes to the parent alone, which stops children in order
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (input < 0) input = open("/dev/null", O_RDONLY);
  if (input >= 0) dup2(input, STDIN_FILENO);
  execv(argv[0], argv);
  _exit(127);
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& command,
                                                 bool talks) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int ends[2], words[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Unknown("cannot start {}: {}", command[0], std::strerror(errno));
  const bool piped = !talks || pipe2(words, O_CLOEXEC) == 0;
  const pid_t parent = getpid();
  const pid_t pid = piped ? fork() : -1;
  if (pid == 0) Become(argv.data(), ends[1], words[0], parent);
  const int reason = errno;
  close(ends[1]);
  if (words[0] >= 0) close(words[0]);
  if (pid < 0) {
    close(ends[0]);
    if (words[1] >= 0) close(words[1]);
    return Unknown("cannot start {}: {}", command[0], std::strerror(reason));
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  if (words[1] >= 0) fcntl(words[1], F_SETFL, O_NONBLOCK);
  return ChildProcess(pid, ends[0], words[1]);
}

void ChildProcess::Write(const std::string& line) const {
  const std::string text = line + '\n';
  if (input_ >= 0 && write(input_, text.data(), text.size()) < 0) return;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      input_(std::exchange(other.input_, -1)),
      partial_(std::move(other.partial_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  pid_ = std::exchange(other.pid_, -1);
  output_ = std::exchange(other.output_, -1);
  input_ = std::exchange(other.input_, -1);
  partial_ = std::move(other.partial_);
  return *this;
}

ChildProcess::~ChildProcess() { Abandon(); }

void ChildProcess::Abandon() {
  if (output_ >= 0) close(output_);
  if (input_ >= 0) close(input_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

std::vector<std::string> ChildProcess::ReadLines() {
  std::vector<std::string> lines;
  char buffer[1 << 14];
  while (output_ >= 0) {
    const ssize_t n = read(output_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      close(std::exchange(output_, -1));
      if (!partial_.empty()) lines.push_back(std::exchange(partial_, {}));
      break;
    }
    partial_.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = partial_.find('\n')) != std::string::npos; partial_.erase(0, end + 1)) {
      lines.push_back(partial_.substr(0, end));
    }
  }
  return lines;
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

std::optional<int> ChildProcess::Reap() {
  int how = 0;
  if (pid_ <= 0 || waitpid(pid_, &how, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

}  // namespace baton::cli
