// A worker as a process: binds its port, serves the Worker service with health checks and
// reflection, ends cleanly.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "proto/address.h"
#include "proto/security.h"
#include "worker/stage_runner.h"

namespace baton::worker {

struct WorkerServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT
  std::string models_dir = ".";
  std::string name;                  // empty: the address
  uint64_t memory_budget_bytes = 0;  // 0: what the host has
  std::string kv_folder = {};        // for KV blocks that are kept; empty: the user's own
  uint64_t kv_limit_bytes = uint64_t{16} << 30;
  wire::Security security;
  bool insecure = false;  // beyond loopback without TLS
};

// A server that runs from Start to its destruction.
// Owner: RunWorker, or a test.
class WorkerServer {
 public:
  virtual ~WorkerServer() = default;  // ends streams, waits at most about a second for calls

  // Fails before anything is loaded: AlreadyExists for a port in use, PermissionDenied for an open
  // address.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(const WorkerServerOptions& options,
                                                             std::unique_ptr<StageLoader> loader);
  virtual wire::Address address() const = 0;  // with the real port
};

}  // namespace baton::worker
