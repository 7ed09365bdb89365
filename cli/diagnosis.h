// What may be wrong with a cluster before or while it runs, each with what to do about it.
#pragma once

#include <string>
#include <vector>

#include "coordinator/topology.h"

namespace baton::cli {

struct Finding {
  enum class Level { kGood, kWarning, kError };
  Level level = Level::kGood;
  std::string where;  // file:line, worker or link
  std::string what;
  std::string todo;  // empty where all is well
};
std::string_view LevelName(Finding::Level level);  // good, warning, error

// Looks at this machine, asks the workers that answer, and compares with what the plan assumes.
// Changes nothing. Takes some seconds.
std::vector<Finding> Diagnose(const coordinator::Topology& topology);

}  // namespace baton::cli
