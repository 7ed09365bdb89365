#include "coordinator/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>

namespace baton::coordinator {
namespace {

using Kind = Bottleneck::Kind;

constexpr double kBusyShare = 0.75;  // of the time: the stage is what everything waits for
constexpr double kUneven = 1.25;     // so many times the mean is more than its share
constexpr double kMattersMs = 0.2;

// What a stage takes of a micro-batch's trip.
struct Hop {
  std::string worker;
  std::string from;  // who sends to it
  double compute_ms = 0;
  double link_ms = 0;
  double busy_share = 0;
  int32_t layers = 0;
};

std::vector<Hop> HopsOf(const ClusterStatus& status) {
  std::vector<Hop> hops;
  const auto& placement = status.state.placement;
  for (size_t i = 0; i < placement.size() && i < status.pipeline.stages.size(); ++i) {
    const WorkerSnapshot& worker = status.workers[placement[i].worker];
    const StageStats& stats = status.pipeline.stages[i];
    hops.push_back({.worker = worker.name,
                    .from = i == 0 ? "the coordinator" : hops.back().worker,
                    .compute_ms = stats.step_ms,
                    .link_ms = stats.link_ms,
                    .busy_share = stats.busy_share,
                    .layers = placement[i].layers.size()});
  }
  return hops;
}

Bottleneck Stage(const Hop& hop, double mean_ms, std::string_view why) {
  return {
      Kind::kStage, hop.worker,
      fmt::format("stage {} computes {:.2f} ms of each step, the mean is {:.2f} ms ({}): give it "
                  "fewer layers or more threads",
                  hop.worker, hop.compute_ms, mean_ms, why)};
}

}  // namespace

Bottleneck FindBottleneck(const ClusterStatus& status) {
  if (status.state.state != ClusterState::kReady) {
    return {Kind::kNotReady, "",
            fmt::format("{}{}{}", ClusterStateName(status.state.state),
                        status.state.reason.empty() ? "" : ": ", status.state.reason)};
  }
  const SchedulerStats& scheduler = status.pipeline.scheduler;
  if (scheduler.running == 0) return {Kind::kIdle, "", "idle: no requests"};
  const std::vector<Hop> hops = HopsOf(status);
  if (hops.empty()) return {Kind::kIdle, "", "nothing is measured yet"};

  const auto slowest = std::ranges::max_element(hops, {}, &Hop::compute_ms);
  const auto farthest = std::ranges::max_element(hops, {}, &Hop::link_ms);
  double compute_ms = 0;
  for (const Hop& hop : hops) compute_ms += hop.compute_ms;
  const double mean_ms = compute_ms / static_cast<double>(hops.size());

  if (farthest->link_ms > std::max(slowest->compute_ms, kMattersMs)) {
    return {Kind::kLink, farthest->worker,
            fmt::format("the link from {} to {} takes {:.2f} ms of each step, more than any stage "
                        "computes ({:.2f} ms)",
                        farthest->from, farthest->worker, farthest->link_ms, slowest->compute_ms)};
  }
  if (hops.size() > 1 && slowest->compute_ms > kUneven * mean_ms) {
    return Stage(*slowest, mean_ms, fmt::format("{:.0f}% busy", slowest->busy_share * 100));
  }
  if (scheduler.waiting > 0 && scheduler.kv_blocks_used * 10 >= scheduler.kv_blocks_total * 9) {
    return {Kind::kMemory, "",
            fmt::format("{} requests wait for KV blocks, {} of {} are used: raise limits.kv_blocks",
                        scheduler.waiting, scheduler.kv_blocks_used, scheduler.kv_blocks_total)};
  }
  const bool full = slowest->busy_share >= kBusyShare;
  return {Kind::kBalanced, "",
          full
              ? fmt::format("all stages compute, {:.2f} ms a step: faster or more machines help",
                            mean_ms)
              : fmt::format("stages wait for each other, {:.0f}% busy at most: {} requests are too "
                            "few to fill {} stages",
                            slowest->busy_share * 100, scheduler.running, hops.size())};
}

}  // namespace baton::coordinator
