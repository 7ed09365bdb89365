// `baton worker`: the engine's stages behind a worker server, until somebody stops it.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "engine/base/status.h"
#include "proto/address.h"
#include "worker/part_store.h"
#include "worker/worker_server.h"

namespace baton::worker {

struct WorkerRunOptions {
  WorkerServerOptions server;
  std::string device = "auto";
  int threads = 0;  // 0: as many as the process may use
  bool mlock = false;
  HubFetch hub_fetch = {};  // for parts of published models; empty: not fetched
};

// Serves until `stop`. `ready` gets the address once clients may call.
absl::Status RunWorker(const WorkerRunOptions& options, std::stop_token stop,
                       const std::function<void(const wire::Address&)>& ready);

}  // namespace baton::worker
