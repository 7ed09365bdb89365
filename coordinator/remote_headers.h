// The headers of a model that only workers have: a coordinator without a weight file takes them
// from those that hold the parts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "coordinator/topology.h"
#include "engine/base/status.h"
#include "proto/worker_client.h"

namespace baton::coordinator {

// The path of the topology's model: where it lies on this host, or else a file in the cache that
// has the headers alone, with holes for the weights. Waits shortly for workers that do not answer
// yet. NotFound where neither this host nor a worker has it.
absl::StatusOr<std::string> FindModelHeaders(const Topology& topology,
                                             wire::WorkerConnector* connector);

// A file of that size with a header and a hole. Another process sees it whole or not at all.
absl::Status WriteWithHole(const std::filesystem::path& path, std::string_view header,
                           uint64_t bytes);

}  // namespace baton::coordinator
