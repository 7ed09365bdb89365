// The topology file of a command, and what `baton up` knows better than the file once ports are
// real.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/topology.h"
#include "engine/base/status.h"
#include "proto/security.h"

namespace baton::cli {

// What of a published model a command wants to have here.
enum class ModelUse : uint8_t {
  kHeaders,
  kWeights,  // where all workers are on this host; other hosts fetch theirs
};

// A model given by name becomes its path in the cache. Bad data but where there is no such file.
absl::StatusOr<coordinator::Topology> ReadTopology(const std::string& path, ModelUse use);

// Replaces the addresses of workers, as "NAME=HOST:PORT".
absl::Status SetAddresses(const std::vector<std::string>& addresses,
                          coordinator::Topology& topology, bool ignore_unknown = false);

wire::Security SecurityOf(const coordinator::Topology& topology);

}  // namespace baton::cli
