#include "coordinator/cluster_status.h"

#include <algorithm>

namespace baton::coordinator {

void CorrectLinkTimes(ClusterStatus* status) {
  const std::vector<Placement>& placement = status->state.placement;
  double word_before_ms = 0;
  for (size_t i = 0; i < std::min(placement.size(), status->pipeline.stages.size()); ++i) {
    const absl::Duration round_trip = status->workers[placement[i].worker].round_trip;
    const double word_ms = absl::ToDoubleMilliseconds(round_trip) / 2;
    double& link_ms = status->pipeline.stages[i].link_ms;
    link_ms = std::max(0.0, link_ms - word_ms + word_before_ms);
    word_before_ms = word_ms;
  }
}

}  // namespace baton::coordinator
