#include "engine/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace baton::engine {
namespace {

constexpr int kMostSpins = 8000, kFewestSpins = 64;  // 8000: a tenth of a millisecond

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// CPUs of a limit of quota microseconds each period, or 0 for none.
int CpusOfQuota(int64_t quota, int64_t period) {
  return quota > 0 && period > 0 ? static_cast<int>(std::max<int64_t>(1, quota / period)) : 0;
}

// The path of this process in a cgroup hierarchy: version 2 has an empty controller list.
std::string CgroupPath(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string list = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool found =
        controller.empty() ? list == ",," : list.find("," + controller + ",") != std::string::npos;
    if (found) return line.substr(second + 1);
  }
  return "";
}

int CgroupCpus() {
  for (const std::string& path : {CgroupPath(""), std::string()}) {
    std::ifstream v2("/sys/fs/cgroup" + path + "/cpu.max");
    std::string quota;
    int64_t period = 0;
    if (v2 >> quota >> period) return quota == "max" ? 0 : CpusOfQuota(std::stoll(quota), period);
  }
  for (const std::string& path : {CgroupPath("cpu"), std::string()}) {
    std::ifstream quota_file("/sys/fs/cgroup/cpu" + path + "/cpu.cfs_quota_us");
    std::ifstream period_file("/sys/fs/cgroup/cpu" + path + "/cpu.cfs_period_us");
    int64_t quota = 0, period = 0;
    if (quota_file >> quota && period_file >> period) return CpusOfQuota(quota, period);
  }
  return 0;
}

}  // namespace

int AvailableCpus() {
  cpu_set_t set;
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const int limit = CgroupCpus(); limit > 0) cpus = std::min(cpus, limit);
  return std::max(cpus, 1);
}

ThreadPool::Waiter::Waiter() : spins_(kMostSpins) {}

int ThreadPool::Waiter::AwaitChange(const std::atomic<int>& value, int old) {
  for (int i = 0; i < spins_; ++i) {
    const int now = value.load(std::memory_order_acquire);
    if (now != old) {
      spins_ = std::min(spins_ + spins_ / 8, kMostSpins);
      return now;
    }
    Pause();
  }
  spins_ = std::max(spins_ / 2, kFewestSpins);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(i); });
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Work(int thread) {
  Waiter waiter;
  for (int seen = 0;;) {
    seen = waiter.AwaitChange(generation_, seen);
    if (stop_) return;
    call_(task_, thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::RunErased(Call call, const void* task) {
  if (!workers_.empty()) {
    call_ = call;
    task_ = task;
    running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  call(task, 0);
  for (int left = running_.load(std::memory_order_acquire); left != 0;)
    left = waiter_.AwaitChange(running_, left);
}

}  // namespace baton::engine
