// A thread that does one slow thing after another (loading, reading files), so that transport
// threads need not.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace baton::worker {

class SerialExecutor {
 public:
  explicit SerialExecutor(size_t max_waiting);
  ~SerialExecutor();  // does what waits, then ends

  [[nodiscard]] bool Run(std::function<void()> job);  // false: too many wait

 private:
  void Loop();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::thread thread_;
};

}  // namespace baton::worker
