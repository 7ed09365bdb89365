// The coordinator: reads headers, plans, has workers load their stages, serves requests. Holds no
// weights.
//
// `baton serve`, `up` and `run` make one; `run` gives it the workers of its own process.
#pragma once

#include <absl/time/time.h>

#include <memory>

#include "coordinator/llm_service.h"
#include "coordinator/topology.h"
#include "engine/base/status.h"
#include "proto/worker_client.h"

namespace baton::coordinator {

// Where a coordinator's topology came from, to be asked again. Called on the thread of whoever
// wants a reload, one at a time.
class TopologySource {
 public:
  virtual ~TopologySource() = default;
  virtual absl::StatusOr<Topology> Read(absl::Time deadline) = 0;
  // What became of what was read.
  virtual void OnTaken(const absl::Status& /*status*/) {}
};

class Coordinator {
 public:
  // Opens the model, headers only; checks it and the topology. `connector` must outlive the
  // coordinator, and so must `source`; without one the topology stays what it is.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(const Topology& topology,
                                                             wire::WorkerConnector* connector,
                                                             TopologySource* source = nullptr);
  virtual ~Coordinator() = default;  // Shutdown

  // Begins to connect and load, in the background.
  virtual void Start() = 0;
  // Until all stages are loaded, or cannot be: then the reason.
  virtual absl::Status WaitReady(absl::Time deadline) = 0;
  // Open requests end with Unavailable. Workers keep what they have loaded.
  virtual void Shutdown() = 0;

  virtual LlmService* service() = 0;
};

}  // namespace baton::coordinator
