// A program that baton starts and looks after: dies with its parent, and its output comes back line
// by line.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace baton::cli {

// Owner: Supervisor. Its thread alone starts, reads and reaps; the kernel ends the child when that
// thread does.
class ChildProcess {
 public:
  // `command` is the program's path and its arguments. The child has our environment; its stdout
  // and stderr are one pipe. `talks`: its stdin is one too, for Write.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& command,
                                            bool talks = false);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();  // kills it where it still runs

  pid_t pid() const { return pid_; }
  int output() const { return output_; }  // to poll; -1 after its end

  // Whole lines that are there now; at the end also what stands there without a line end.
  std::vector<std::string> ReadLines();
  // A line for one that reads them; lost where it does not.
  void Write(const std::string& line) const;
  void Signal(int signal) const;
  // The exit code (128 + signal where one ended it), once; nullopt: still runs.
  std::optional<int> Reap();

 private:
  ChildProcess(pid_t pid, int output, int input) : pid_(pid), output_(output), input_(input) {}
  void Abandon();

  pid_t pid_ = -1;  // -1: reaped
  int output_ = -1;
  int input_ = -1;  // -1: it has none
  std::string partial_;
};

}  // namespace baton::cli
