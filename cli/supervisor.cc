#include "cli/supervisor.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ranges>

#include "cli/exit_code.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(10);
constexpr absl::Duration kSteady =
    absl::Seconds(3);  // alive for so long: the next pause is the first again
constexpr absl::Duration kTimeToEnd = absl::Seconds(5);  // to end cleanly

sigset_t SignalSet(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

Supervisor::Supervisor() {
  const sigset_t set = SignalSet({SIGINT, SIGTERM, SIGCHLD});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

Supervisor::~Supervisor() {
  Stop();
  close(signals_);
}

void Supervisor::OnHangup(std::function<void()> on_hangup) {
  on_hangup_ = std::move(on_hangup);
  const sigset_t set = SignalSet({SIGINT, SIGTERM, SIGCHLD, SIGHUP});
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signalfd(signals_, &set, 0);
}

absl::Status Supervisor::Start(Program program) {
  programs_.push_back(std::make_unique<Running>());
  Running& running = *programs_.back();
  running.program = std::move(program);
  running.pause = kFirstPause;
  return Launch(running);
}

absl::Status Supervisor::Launch(Running& running) {
  ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(running.program.command(running.ready),
                                                             running.program.on_line != nullptr));
  running.process.emplace(std::move(process));
  running.started = SteadyNow();
  running.restart = absl::InfiniteFuture();
  return absl::OkStatus();
}

absl::Status Supervisor::WaitUntilReady(absl::Duration timeout) {
  const auto all_ready = [this] {
    return std::ranges::all_of(programs_, [](const auto& p) { return p->ready.has_value(); });
  };
  absl::Status status = Loop(all_ready, SteadyNow() + timeout);
  if (!absl::IsDeadlineExceeded(status)) return status;
  for (const auto& running : programs_) {
    if (!running->ready)
      return DeadlineExceeded("{}: not ready after {}", running->program.name,
                              absl::FormatDuration(timeout));
  }
  return status;
}

absl::Status Supervisor::Run() {
  return Loop([] { return false; }, absl::InfiniteFuture());
}

absl::Status Supervisor::Loop(const std::function<bool()>& done, absl::Time deadline) {
  while (!done()) {
    if (StopRequested()) return Cancelled("stopped by a signal");
    const absl::Time now = SteadyNow();
    if (now >= deadline) return DeadlineExceeded("not ready in time");
    for (const auto& running : programs_) {
      if (running->restart <= now) RETURN_IF_ERROR(Launch(*running));
      if (running->kill <= now && running->process) running->process->Signal(SIGKILL);
    }
    WaitForEvents(std::min(deadline, NextRestart()));
    // What is called here may start programs.
    for (size_t i = 0; i < programs_.size(); ++i) {
      Forward(*programs_[i]);
      RETURN_IF_ERROR(Reap(*programs_[i]));
    }
    std::erase_if(programs_, [](const auto& running) { return running->gone; });
  }
  return absl::OkStatus();
}

absl::Time Supervisor::NextRestart() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& running : programs_) {
    next = std::min({next, running->restart, running->process ? running->kill : next});
  }
  return next;
}

void Supervisor::WaitForEvents(absl::Time until) {
  std::vector<pollfd> watched = {{.fd = signals_, .events = POLLIN, .revents = 0}};
  for (const auto& running : programs_) {
    if (running->process && running->process->output() >= 0) {
      watched.push_back({.fd = running->process->output(), .events = POLLIN, .revents = 0});
    }
  }
  int timeout_ms = -1;
  if (until != absl::InfiniteFuture()) {
    const int64_t left = absl::ToInt64Milliseconds(until - SteadyNow()) + 1;
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }
  poll(watched.data(), watched.size(), timeout_ms);
}

void Supervisor::Forward(Running& running) {
  if (!running.process) return;
  for (std::string& line : running.process->ReadLines()) {
    if (line.ends_with('\r')) line.pop_back();  // from a terminal, as of ssh
    if (auto ready = ParseReadyLine(line)) {
      running.ready = std::move(ready);
      if (running.program.on_ready != nullptr) running.program.on_ready();
    }
    if (line.starts_with(kErrorPrefix)) running.last_error = line.substr(kErrorPrefix.size());
    if (!line.empty()) running.last_line = line;
    if (running.program.on_line != nullptr && running.program.on_line(line)) continue;
    std::fprintf(stderr, "%s | %s\n", running.program.name.c_str(), line.c_str());
  }
}

absl::Status Supervisor::Reap(Running& running) {
  if (!running.process) return absl::OkStatus();
  const auto code = running.process->Reap();
  if (!code) return absl::OkStatus();
  Forward(running);  // its last words
  running.process.reset();
  if (running.kill != absl::InfiniteFuture()) {
    running.gone = true;
    return absl::OkStatus();
  }
  if (!running.ready) {
    const absl::Status why =
        Unavailable("{}: {}", running.program.name,
                    running.last_error.empty()
                        ? fmt::format("ended with {} before it was ready{}{}", *code,
                                      running.last_line.empty() ? "" : ": ", running.last_line)
                        : running.last_error);
    if (running.program.on_failure == nullptr)
      return WithExitCode(why, *code == 0 ? kFailed : static_cast<ExitCode>(*code));
    running.gone = true;
    running.program.on_failure(why);
    return absl::OkStatus();
  }
  if (SteadyNow() - running.started > kSteady) running.pause = kFirstPause;
  spdlog::warn("{} ended with {}; starting it again in {}", running.program.name, *code,
               absl::FormatDuration(running.pause));
  running.restart = SteadyNow() + running.pause;
  running.pause = std::min(2 * running.pause, kLongestPause);
  return absl::OkStatus();
}

bool Supervisor::StopRequested() {
  signalfd_siginfo info;
  while (read(signals_, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGHUP) {
      on_hangup_();
    } else if (info.ssi_signo != SIGCHLD) {
      stop_requested_ = true;
    }
  }
  return stop_requested_;
}

void Supervisor::Stop() {
  for (const auto& running : programs_ | std::views::reverse) {
    running->restart = absl::InfiniteFuture();
    if (running->process) running->process->Signal(SIGTERM);
  }
  const absl::Time deadline = SteadyNow() + kTimeToEnd;
  const auto runs = [](const auto& p) { return p->process.has_value(); };
  while (std::ranges::any_of(programs_, runs) && SteadyNow() < deadline) {
    WaitForEvents(std::min(deadline, SteadyNow() + absl::Milliseconds(100)));
    StopRequested();
    for (const auto& running : programs_) {
      if (!running->process) continue;
      Forward(*running);
      if (running->process->Reap()) running->process.reset();
    }
  }
  programs_.clear();  // kills what is left
}

void Supervisor::Remove(std::string_view name) {
  Running* running = Find(name);
  if (running == nullptr) return;
  running->restart = absl::InfiniteFuture();
  running->kill = SteadyNow() + kTimeToEnd;
  if (running->process) {
    running->process->Signal(SIGTERM);
  } else {
    running->gone = true;
  }
}

void Supervisor::Tell(std::string_view name, const std::string& line) {
  const Running* running = Find(name);
  if (running != nullptr && running->process) running->process->Write(line);
}

std::vector<std::string> Supervisor::names() const {
  std::vector<std::string> names;
  for (const auto& running : programs_) names.push_back(running->program.name);
  return names;
}

Supervisor::Running* Supervisor::Find(std::string_view name) const {
  const auto found = std::ranges::find_if(programs_, [&](const auto& p) {
    return p->program.name == name && !p->gone && p->kill == absl::InfiniteFuture();
  });
  return found != programs_.end() ? found->get() : nullptr;
}

bool Supervisor::is_ready(std::string_view name) const {
  const Running* running = Find(name);
  return running != nullptr && running->ready.has_value();
}

const ReadyLine& Supervisor::ready(std::string_view name) const { return *Find(name)->ready; }

}  // namespace baton::cli
