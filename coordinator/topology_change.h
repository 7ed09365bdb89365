// What a topology file that was edited means for the cluster that runs by it.
#pragma once

#include <string>
#include <vector>

#include "coordinator/topology.h"
#include "engine/base/status.h"

namespace baton::coordinator {

struct TopologyChange {
  std::vector<std::string> joined;  // names of workers and spares
  std::vector<std::string> left;
  bool replan = false;  // what the planner knew of workers (not spares) and links has changed
};

// FailedPrecondition names the key that only a restart can change.
absl::StatusOr<TopologyChange> CompareTopologies(const Topology& now, const Topology& wanted);

// For people: "new joined, old left".
std::string Describe(const TopologyChange& change);

}  // namespace baton::coordinator
