// Keeps programs running: starts them, forwards what they say under their names, restarts what
// dies, stops all.
#pragma once

#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/child_process.h"
#include "cli/ready_line.h"
#include "engine/base/status.h"

namespace baton::cli {

// Takes SIGINT, SIGTERM and SIGCHLD for itself. Owner: a command; its thread alone calls.
class Supervisor {
 public:
  struct Program {
    std::string name;
    // What to run, path first. `last` is the ready line of the run before, if there was one: a
    // restart takes the same ports.
    std::function<std::vector<std::string>(const std::optional<ReadyLine>& last)> command;
    // It is told lines (Tell), and its own go here first; true: that was all of this one.
    std::function<bool(const std::string& line)> on_line = nullptr;
    std::function<void()> on_ready = nullptr;  // each time that it says so
    // Its end before it was ready ends nothing else: it is said here, and it is removed.
    std::function<void(const absl::Status& why)> on_failure = nullptr;
  };

  Supervisor();
  ~Supervisor();  // as Stop
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts a program. One that ends before its first ready line is an error, one that ends later is
  // started again, after a pause that doubles while it keeps dying.
  absl::Status Start(Program program);
  // Until all are ready. Cancelled: a signal came.
  absl::Status WaitUntilReady(absl::Duration timeout);
  // Until a signal comes.
  absl::Status Run();
  // Takes SIGHUP, too; called between events, as on_line and on_failure are.
  void OnHangup(std::function<void()> on_hangup);
  // While it runs, from such a call. A program that is removed is asked to end, and killed where it
  // does not.
  void Remove(std::string_view name);
  void Tell(std::string_view name, const std::string& line);
  std::vector<std::string> names() const;
  bool has(std::string_view name) const { return Find(name) != nullptr; }
  bool is_ready(std::string_view name) const;
  // Asks all to end, the last first, and kills what does not.
  void Stop();

  const ReadyLine& ready(std::string_view name) const;  // of a program that is

 private:
  struct Running {
    Program program;
    std::optional<ChildProcess> process;  // nullopt: waits for `restart`
    std::optional<ReadyLine> ready;       // of the latest run that was
    std::string last_line;                // that it said
    std::string last_error;               // of its own kind
    absl::Time started;
    absl::Time restart = absl::InfiniteFuture();
    absl::Duration pause;
    absl::Time kill = absl::InfiniteFuture();  // it is to end until then
    bool gone = false;                         // it has ended for good
  };

  absl::Status Launch(Running& running);
  absl::Status Loop(const std::function<bool()>& done, absl::Time deadline);
  absl::Time NextRestart() const;
  void WaitForEvents(absl::Time until);
  void Forward(Running& running);
  absl::Status Reap(Running& running);
  bool StopRequested();
  Running* Find(std::string_view name) const;

  int signals_;  // signalfd
  std::function<void()> on_hangup_;
  bool stop_requested_ = false;
  std::vector<std::unique_ptr<Running>> programs_;
};

}  // namespace baton::cli
