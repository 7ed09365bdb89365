// Threads that run one task together, each its own share of the outputs.
//
// Owner: a backend. One thread calls Run and takes part as thread 0. Between tasks the others spin,
// since the next task is mostly close, and then park, so that a waiting pool costs its neighbours
// nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace baton::engine {

// CPUs that this process may use: its affinity mask and its cgroup's CPU limit. At least 1.
int AvailableCpus();

// The part of [0, count) that falls to `part` of `parts`, in units of `unit`.
struct Share {
  int64_t begin, end;
};
inline Share ShareOf(int64_t count, int part, int parts, int64_t unit = 1) {
  const int64_t units = (count + unit - 1) / unit;
  const auto edge = [&](int p) {
    const int64_t e = units * p / parts * unit;
    return e < count ? e : count;
  };
  return {edge(part), edge(part + 1)};
}

// What is left of [0, count), in units of `unit`, for whoever comes next: large pieces first, then
// ever smaller ones, so that threads end together however much of their time the system takes.
class Shares {
 public:
  Shares(int64_t count, int64_t unit, int parts) : count_(count), unit_(unit), parts_(parts) {}

  // Any thread. An empty share: nothing is left.
  Share Next() {
    int64_t begin = next_.load(std::memory_order_relaxed), end;
    do {
      const int64_t piece = (count_ - begin) / (2 * parts_) / unit_ * unit_;
      end = std::min(begin + std::max(piece, unit_), count_);
    } while (begin < count_ && !next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
    return {begin, end};
  }

 private:
  const int64_t count_, unit_;
  const int parts_;
  std::atomic<int64_t> next_ = 0;
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the caller included; at least 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(thread) on all threads, thread in [0, size()), and returns when all calls have.
  template <class Task>
  void Run(const Task& task) {
    RunErased([](const void* t, int thread) { (*static_cast<const Task*>(t))(thread); }, &task);
  }
  // Calls task(thread, begin, end) until all of [0, count) is done, in pieces of whole units.
  template <class Task>
  void RunShares(int64_t count, int64_t unit, const Task& task) {
    if (workers_.empty()) return task(0, int64_t{0}, count);
    Shares shares(count, unit, size());
    Run([&](int thread) {
      for (Share s = shares.Next(); s.begin < s.end; s = shares.Next())
        task(thread, s.begin, s.end);
    });
  }

 private:
  // A thread's patience: it spins for as long as that has mostly ended its waits of late. Beside a
  // busy process it has not, since the thread waited for has lost its CPU; who spins all the same
  // spends the share of time by which it would be let in at once when it wakes.
  class Waiter {
   public:
    Waiter();
    // Returns when value is no longer `old`: spins, then sleeps.
    int AwaitChange(const std::atomic<int>& value, int old);

   private:
    int spins_;
  };

  using Call = void (*)(const void* task, int thread);
  void RunErased(Call call, const void* task);
  void Work(int thread);

  std::vector<std::thread> workers_;
  Call call_ = nullptr;  // written before generation_ rises
  const void* task_ = nullptr;
  bool stop_ = false;
  std::atomic<int> generation_ = 0;  // of tasks
  std::atomic<int> running_ = 0;     // workers that have not finished the task
  Waiter waiter_;                    // of the thread that calls Run
};

}  // namespace baton::engine
