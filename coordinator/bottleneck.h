// Why it is not faster: the stage, link or limit that bounds the tokens per second now.
#pragma once

#include <string>

#include "coordinator/cluster_status.h"

namespace baton::coordinator {

struct Bottleneck {
  enum class Kind { kNotReady, kIdle, kStage, kLink, kBalanced, kMemory };
  Kind kind = Kind::kIdle;
  std::string worker;  // whose stage, or whose link in; "" where the matter is nobody's
  std::string text;    // one line, for people
};

// A pure function of what status shows.
Bottleneck FindBottleneck(const ClusterStatus& status);

}  // namespace baton::coordinator
