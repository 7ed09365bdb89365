// What a cluster is doing, as `baton status` shows it: one JSON document, or a table for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/cluster_status.h"

namespace baton::cli {

nlohmann::ordered_json StatusJson(const coordinator::ClusterStatus& cluster);
std::string StatusText(const coordinator::ClusterStatus& cluster);

}  // namespace baton::cli
