#include "worker/run_worker.h"

#include <condition_variable>
#include <csignal>
#include <mutex>

#include "engine/base/time_slice.h"
#include "worker/engine_stage.h"

namespace baton::worker {

absl::Status RunWorker(const WorkerRunOptions& options, std::stop_token stop,
                       const std::function<void(const wire::Address&)>& ready) {
  engine::AskForShortTimeSlices();
  std::signal(SIGPIPE, SIG_IGN);  // a peer that goes away is an error of a write
  ASSIGN_OR_RETURN(auto loader, EngineStageLoader::Make({.models_dir = options.server.models_dir,
                                                         .device = options.device,
                                                         .threads = options.threads,
                                                         .mlock = options.mlock,
                                                         .cache_dir = "",
                                                         .security = options.server.security,
                                                         .hub_fetch = options.hub_fetch}));
  ASSIGN_OR_RETURN(const auto server, WorkerServer::Start(options.server, std::move(loader)));
  ready(server->address());

  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait(lock, stop, [] { return false; });
  return absl::OkStatus();
}

}  // namespace baton::worker
