// The cluster's status as JSON: what `baton status --json`, the web page and scripts read. The
// shape is an interface.
#pragma once

#include <nlohmann/json.hpp>

#include "coordinator/cluster_status.h"

namespace baton::coordinator {

nlohmann::ordered_json ClusterToJson(const ClusterStatus& status);

}  // namespace baton::coordinator
