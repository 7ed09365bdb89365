// Notices when somebody sets the clock of the day, says so, and keeps gRPC's timers going.
//
// baton itself waits by steady time (engine/base/steady_time.h). gRPC's timer thread sleeps until a
// date: set back by an hour, the clock would take deadlines of calls, keepalive and reconnecting
// away for an hour. So that thread is woken, and computes anew.
//
// Owner: GrpcServer. One thread of its own, which looks once a second.
#pragma once

#include <absl/time/time.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace baton::wire {

class ClockWatch {
 public:
  ClockWatch();

 private:
  void Run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: uses all of the above
};

}  // namespace baton::wire
