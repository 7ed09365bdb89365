// Ctrl-C and SIGTERM as something a command can deal with, instead of the end of the process.
#pragma once

#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace baton::cli {

// Blocks SIGINT and SIGTERM in this thread and those it starts, so make one before other threads
// exist. Until somebody deals with signals they end the process, as they would without a watch.
//
// Owner: a command, one at a time. The handler runs on the watch's thread.
class InterruptWatch {
 public:
  // `on_hangup` takes SIGHUP, too, on the watch's thread; without it that ends the process.
  explicit InterruptWatch(std::function<void()> on_hangup = nullptr);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // From now on `handler` deals with signals; empty: they end the process. Who presses Ctrl-C three
  // times while one handler is at it wants out, and gets it. Returns when a handler before this one
  // has ended.
  void OnSignal(std::function<void()> handler);

 private:
  void Run();
  void Handle();

  const std::function<void()> on_hangup_;
  int stop_event_;
  std::mutex mutex_;
  std::function<void()> handler_;  // guarded by mutex_
  int signals_ = 0;                // that the handler has had; guarded by mutex_
  std::thread thread_;
};

// Blocks until `stop` is requested.
void WaitForStop(std::stop_token stop);

}  // namespace baton::cli
