// The events of a worker link, in the order they came; tests wait for what they expect.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "proto/worker_client.h"

namespace baton::testing {

class EventLog {
 public:
  std::function<void(wire::WorkerEvent)> sink() {
    return [this](wire::WorkerEvent event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
      changed_.notify_all();
    };
  }

  // The next unread event of a kind, events of other kinds before it stay; nothing within ten
  // seconds: nullopt.
  template <typename Event>
  std::optional<Event> Next(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    std::unique_lock lock(mutex_);
    std::optional<Event> found;
    changed_.wait_for(lock, timeout, [&] {
      for (auto event = events_.begin(); event != events_.end(); ++event) {
        if (auto* wanted = std::get_if<Event>(&*event)) {
          found = std::move(*wanted);
          events_.erase(event);
          return true;
        }
      }
      return false;
    });
    return found;
  }
  template <typename Event>
  size_t Count() {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const wire::WorkerEvent& event : events_)
      count += std::holds_alternative<Event>(event) ? 1 : 0;
    return count;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<wire::WorkerEvent> events_;
};

}  // namespace baton::testing
