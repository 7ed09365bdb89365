#include "cli/status_report.h"

#include <fmt/format.h>

#include "cli/answer.h"

namespace baton::cli {
namespace {

using coordinator::ClusterStatus;
using coordinator::WorkerSnapshot;
using Json = nlohmann::ordered_json;

constexpr double kMiB = 1 << 20;

// The stage that a worker has, or -1.
int StageOf(const ClusterStatus& cluster, size_t worker) {
  const auto& placement = cluster.state.placement;
  for (size_t stage = 0; stage < placement.size() && stage < cluster.pipeline.stages.size();
       ++stage) {
    if (placement[stage].worker == worker) return static_cast<int>(stage);
  }
  return -1;
}

Json WorkerJson(const ClusterStatus& cluster, size_t index) {
  const WorkerSnapshot& worker = cluster.workers[index];
  const int stage = StageOf(cluster, index);
  const coordinator::StageStats stats =
      stage >= 0 ? cluster.pipeline.stages[static_cast<size_t>(stage)] : coordinator::StageStats();
  return {{"name", worker.name},
          {"address", worker.address},
          {"pid", worker.info.pid > 0 ? Json(worker.info.pid) : Json(nullptr)},
          {"state", coordinator::WorkerStateName(worker.state)},
          {"reason", worker.reason.empty() ? Json(nullptr) : Json(worker.reason)},
          {"layers", {{"begin", worker.layers.begin}, {"end", worker.layers.end}}},
          {"device", worker.info.device},
          {"weights_bytes", worker.weights_bytes},
          {"kv_bytes", worker.kv_bytes},
          {"rss_bytes", worker.info.rss_bytes},
          {"weight_bytes_received", worker.info.weight_bytes_received},
          {"load_progress", worker.load_progress},
          {"round_trip_ms", absl::ToDoubleMilliseconds(worker.round_trip)},
          {"stage_ms", stats.step_ms},
          {"queue_ms", stats.queue_ms},
          {"link_ms", stats.link_ms},
          {"busy_share", stats.busy_share}};
}

std::string WorkerLine(const ClusterStatus& cluster, size_t index, size_t name_width) {
  const WorkerSnapshot& worker = cluster.workers[index];
  const int stage = StageOf(cluster, index);
  std::string line = fmt::format(
      "{:<{}}  {:<9} layers {:<7} {:>8.1f} MiB weights {:>8.1f} MiB KV {:>8.1f} MiB resident",
      worker.name, name_width, coordinator::WorkerStateName(worker.state),
      LayersText(worker.layers), static_cast<double>(worker.weights_bytes) / kMiB,
      static_cast<double>(worker.kv_bytes) / kMiB,
      static_cast<double>(worker.info.rss_bytes) / kMiB);
  if (stage >= 0) {
    const coordinator::StageStats& stats = cluster.pipeline.stages[static_cast<size_t>(stage)];
    line += fmt::format("  {:>6.2f} ms {:>3.0f}% busy, link in {:.2f} ms", stats.step_ms,
                        stats.busy_share * 100, stats.link_ms);
  }
  if (worker.state == coordinator::WorkerState::kLoading)
    line += fmt::format("  loaded {:.0f}%", worker.load_progress * 100);
  if (!worker.reason.empty()) line += fmt::format("  ({})", worker.reason);
  return line + fmt::format("  {}\n", worker.address);
}

}  // namespace

Json StatusJson(const ClusterStatus& cluster) {
  Json workers = Json::array();
  for (size_t i = 0; i < cluster.workers.size(); ++i) workers.push_back(WorkerJson(cluster, i));
  return {{"state", coordinator::ClusterStateName(cluster.state.state)},
          {"reason", cluster.state.reason.empty() ? Json(nullptr) : Json(cluster.state.reason)},
          {"epoch", cluster.state.epoch},
          {"model",
           {{"name", cluster.model.name},
            {"fingerprint", cluster.model.fingerprint},
            {"num_layers", cluster.model.num_layers},
            {"architecture", cluster.model.architecture},
            {"context_length", cluster.model.context_length}}},
          {"coordinator", {{"pid", cluster.pid}, {"rss_bytes", cluster.rss_bytes}}},
          {"workers", workers},
          {"sequences",
           {{"running", cluster.pipeline.scheduler.running},
            {"waiting", cluster.pipeline.scheduler.waiting}}},
          {"tokens_per_s", cluster.pipeline.tokens_per_s},
          {"bottleneck", cluster.bottleneck}};
}

std::string StatusText(const ClusterStatus& cluster) {
  const coordinator::SchedulerStats& scheduler = cluster.pipeline.scheduler;
  std::string text =
      fmt::format("{} ({} layers): {}, epoch {}{}\n", cluster.model.name, cluster.model.num_layers,
                  coordinator::ClusterStateName(cluster.state.state), cluster.state.epoch,
                  cluster.state.reason.empty() ? "" : ": " + cluster.state.reason);
  size_t width = 0;
  for (const WorkerSnapshot& worker : cluster.workers) width = std::max(width, worker.name.size());
  for (size_t i = 0; i < cluster.workers.size(); ++i) text += WorkerLine(cluster, i, width);
  text += fmt::format("{} running, {} waiting; {:.1f} tokens/s; {} of {} KV blocks used\n",
                      scheduler.running, scheduler.waiting, cluster.pipeline.tokens_per_s,
                      scheduler.kv_blocks_used, scheduler.kv_blocks_total);
  return cluster.bottleneck.empty() ? text : text + cluster.bottleneck + "\n";
}

}  // namespace baton::cli
