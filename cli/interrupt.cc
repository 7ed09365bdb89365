#include "cli/interrupt.h"

#include <absl/synchronization/notification.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "cli/exit_code.h"

namespace baton::cli {
namespace {

constexpr int kPatience = 3;  // signals

sigset_t Signals(bool hangup) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (hangup) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

InterruptWatch::InterruptWatch(std::function<void()> on_hangup)
    : on_hangup_(std::move(on_hangup)), stop_event_(eventfd(0, EFD_CLOEXEC)) {
  const sigset_t set = Signals(on_hangup_ != nullptr);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { Run(); });
}

InterruptWatch::~InterruptWatch() {
  eventfd_write(stop_event_, 1);
  thread_.join();
  close(stop_event_);
  const sigset_t set = Signals(on_hangup_ != nullptr);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void InterruptWatch::OnSignal(std::function<void()> handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::move(handler);
  signals_ = 0;
}

void InterruptWatch::Run() {
  const sigset_t set = Signals(on_hangup_ != nullptr);
  const int signals = signalfd(-1, &set, SFD_CLOEXEC);
  pollfd watched[] = {{.fd = signals, .events = POLLIN, .revents = 0},
                      {.fd = stop_event_, .events = POLLIN, .revents = 0}};
  while (poll(watched, 2, -1) >= 0 || errno == EINTR) {
    if (watched[1].revents != 0) break;
    signalfd_siginfo info;
    if (watched[0].revents == 0 || read(signals, &info, sizeof info) != sizeof info) continue;
    if (info.ssi_signo == SIGHUP) {
      on_hangup_();
    } else {
      Handle();
    }
  }
  close(signals);
}

void InterruptWatch::Handle() {
  const std::lock_guard lock(mutex_);
  if (handler_ == nullptr || ++signals_ >= kPatience) _exit(kInterrupted);
  handler_();
}

void WaitForStop(std::stop_token stop) {
  absl::Notification stopped;
  const std::stop_callback callback(std::move(stop), [&stopped] { stopped.Notify(); });
  stopped.WaitForNotification();
}

}  // namespace baton::cli
