#include "coordinator/cluster_json.h"

#include <algorithm>

namespace baton::coordinator {
namespace {

using Json = nlohmann::ordered_json;

// The worker's place in the pipeline; the number of stages where it has none.
size_t StageOf(const ClusterStatus& status, size_t worker) {
  const auto& placement = status.state.placement;
  const auto found = std::find_if(placement.begin(), placement.end(),
                                  [&](const Placement& p) { return p.worker == worker; });
  return static_cast<size_t>(found - placement.begin());
}

Json WorkerToJson(const ClusterStatus& status, size_t index) {
  const WorkerSnapshot& worker = status.workers[index];
  const size_t stage = StageOf(status, index);
  const StageStats figures =
      stage < status.pipeline.stages.size() ? status.pipeline.stages[stage] : StageStats{};
  Json json = {{"name", worker.name},
               {"address", worker.address},
               {"pid", worker.info.pid != 0 ? Json(worker.info.pid) : Json(nullptr)},
               {"state", WorkerStateName(worker.state)},
               {"layers", nullptr},
               {"device", worker.info.device},
               {"weights_bytes", worker.weights_bytes},
               {"kv_bytes", worker.kv_bytes},
               {"rss_bytes", worker.info.rss_bytes},
               {"weight_bytes_received", worker.info.weight_bytes_received},
               {"backend", worker.info.backend},
               {"memory_available_bytes", worker.info.memory_available_bytes},
               {"load_progress", worker.load_progress},
               {"stage_ms", figures.step_ms},
               {"busy_share", figures.busy_share},
               {"queue_ms", figures.queue_ms},
               {"link_ms", figures.link_ms},
               {"round_trip_ms", absl::ToDoubleMilliseconds(worker.round_trip)},
               {"spare", worker.spare},
               {"reason", worker.reason}};
  if (worker.layers.size() > 0)
    json["layers"] = {{"begin", worker.layers.begin}, {"end", worker.layers.end}};
  return json;
}

}  // namespace

Json ClusterToJson(const ClusterStatus& status) {
  const SchedulerStats& scheduler = status.pipeline.scheduler;
  Json workers = Json::array();
  for (size_t i = 0; i < status.workers.size(); ++i) workers.push_back(WorkerToJson(status, i));
  return {{"state", ClusterStateName(status.state.state)},
          {"reason", status.state.reason},
          {"epoch", status.state.epoch},
          {"model",
           {{"name", status.model.name},
            {"fingerprint", status.model.fingerprint},
            {"num_layers", status.model.num_layers},
            {"context_length", status.model.context_length}}},
          {"coordinator",
           {{"pid", status.pid}, {"rss_bytes", status.rss_bytes}, {"uptime_s", status.uptime_s}}},
          {"workers", std::move(workers)},
          {"sequences", {{"running", scheduler.running}, {"waiting", scheduler.waiting}}},
          {"kv_blocks",
           {{"total", scheduler.kv_blocks_total},
            {"used", scheduler.kv_blocks_used},
            {"cached", scheduler.kv_blocks_cached}}},
          {"tokens_per_s", status.pipeline.tokens_per_s},
          {"trip_ms", status.pipeline.trip_ms},
          {"bottleneck", status.bottleneck}};
}

}  // namespace baton::coordinator
