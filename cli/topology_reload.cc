#include "cli/topology_reload.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <sstream>
#include <utility>

#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kLongestReload = absl::Minutes(30);

void TellParent(std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

}  // namespace

bool HangupReloads() { return isatty(STDIN_FILENO) == 0; }

TopologyReload::TopologyReload(Reader read, bool supervised)
    : read_(std::move(read)), supervised_(supervised), stop_event_(eventfd(0, EFD_CLOEXEC)) {
  if (supervised_) listener_ = std::thread([this] { Listen(); });
}

TopologyReload::~TopologyReload() {
  Stop();
  close(stop_event_);
}

void TopologyReload::Start(coordinator::LlmService* service) {
  server_ = std::thread([this, service] { Serve(service); });
}

void TopologyReload::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  eventfd_write(stop_event_, 1);
  for (std::thread* thread : {&server_, &listener_}) {
    if (thread->joinable()) thread->join();
  }
}

void TopologyReload::Wish() {
  {
    const std::lock_guard lock(mutex_);
    wished_ = true;
  }
  changed_.notify_all();
}

absl::StatusOr<coordinator::Topology> TopologyReload::Read(absl::Time deadline) {
  if (!supervised_) return read_({});
  std::unique_lock lock(mutex_);
  if (!answer_) TellParent(kReloadWanted);
  waiting_ = true;
  changed_.wait_until(lock, ToSteadyClock(deadline),
                      [this] { return stopping_ || answer_.has_value(); });
  waiting_ = false;
  if (stopping_) return Cancelled("the coordinator is shutting down");
  if (!answer_) return DeadlineExceeded("reload: baton up does not answer in time");
  const std::string answer = *std::exchange(answer_, std::nullopt);
  lock.unlock();
  if (answer.starts_with(kCannotReload))
    return FailedPrecondition("{}", answer.substr(kCannotReload.size()));
  std::istringstream words(answer.substr(kWorkersAt.size()));
  std::vector<std::string> addresses;
  for (std::string word; words >> word;) addresses.push_back(word);
  auto topology = read_(addresses);
  if (!topology.ok()) OnTaken(topology.status());
  return topology;
}

void TopologyReload::OnTaken(const absl::Status& status) {
  if (!supervised_) return;
  TellParent(status.ok() ? std::string(kReloaded)
                         : fmt::format("{}{}", kNotReloaded, Message(status)));
}

void TopologyReload::Listen() {
  std::string text;
  pollfd watched[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                      {.fd = stop_event_, .events = POLLIN, .revents = 0}};
  while (poll(watched, 2, -1) >= 0 || errno == EINTR) {
    char buffer[4096];
    if (watched[1].revents != 0) return;
    const ssize_t bytes = read(STDIN_FILENO, buffer, sizeof buffer);
    if (bytes <= 0) return;
    text.append(buffer, static_cast<size_t>(bytes));
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
      const std::lock_guard lock(mutex_);
      answer_ = text.substr(0, end);
      if (!waiting_) wished_ = true;
      changed_.notify_all();
    }
  }
}

void TopologyReload::Serve(coordinator::LlmService* service) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || wished_; });
    if (stopping_) return;
    wished_ = false;
    lock.unlock();
    const auto change = service->ReloadTopology(SteadyNow() + kLongestReload);
    if (!change.ok()) spdlog::error("{}", Message(change.status()));
    lock.lock();
  }
}

}  // namespace baton::cli
