// Threads that run one task together, each its own fixed share of the outputs.
//
// Owner: a backend. One thread calls Run and takes part as thread 0. Between tasks the others spin,
// since the next task is mostly close, and then park, so that a waiting pool costs its neighbours
// nothing.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace baton::engine {

// CPUs that this process may use: its affinity mask and its cgroup's CPU limit. At least 1.
int AvailableCpus();

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
  Call call_ = nullptr;          // written before generation_ rises
  const void* task_ = nullptr;
  bool stop_ = false;
  std::atomic<int> generation_ = 0;  // of tasks
  std::atomic<int> running_ = 0;     // workers that have not finished the task
  Waiter waiter_;                    // of the thread that calls Run
};

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

}  // namespace baton::engine
