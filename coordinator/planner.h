// Who gets which layers: contiguous ranges, by an exact dynamic program.
//
// A pure function of what layers cost, what workers can do and what links take: works from headers
// alone. Explicit ranges and counts win and are checked. A worker that would do harm may be left
// out, and the plan says so.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/topology.h"
#include "engine/arch/cost.h"
#include "engine/arch/layer_range.h"
#include "engine/base/status.h"

namespace baton::coordinator {

struct PlanWorker {
  std::string name;
  std::string host;  // workers with the same one share its memory; empty: a host of its own
  uint64_t memory_bytes = 0;                 // budget; 0: not known, so not limited
  double read_bytes_per_s = 0;               // of weights, in decode; 0: not known
  double alone_read_bytes_per_s = 0;         // while the other workers are idle; 0: the same
  double flops_per_s = 0;                    // of further rows of a decode step; 0: not known
  double prompt_flops_per_s = 0;             // of a prompt's rows; 0: not known
  double weight = 0;                         // explicit share; counts where all have one
  std::optional<engine::LayerRange> layers;  // explicit
  std::optional<int32_t> num_layers;         // explicit
  std::vector<bool> has_layer;               // whose parts its host has; empty: all
  int32_t line = 0;                          // in the topology file
};

struct PlanLink {
  double latency_s = 0;    // one way
  double bytes_per_s = 0;  // 0: not limited
};

struct PlanRequest {
  std::string file;  // stands in errors
  engine::ModelCost cost;
  int32_t hidden_size = 0;
  int32_t kv_positions = 0;    // of all sequences together
  uint64_t scratch_bytes = 0;  // of any stage
  int32_t sequences = 1;
  Objective objective = Objective::kThroughput;
  std::vector<PlanWorker> workers;  // in pipeline order
  bool any_order = false;           // … which the planner may change
  // links[from][to]; row and column 0 are the coordinator, worker i is i + 1. Empty: all free.
  std::vector<std::vector<PlanLink>> links;
};

struct PlanStage {
  size_t worker = 0;  // index into PlanRequest::workers
  engine::LayerRange layers;
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint64_t budget_bytes = 0;  // 0: not known
  double seconds = 0;         // for a decode micro-batch; without known speeds: in proportion only

  uint64_t memory_bytes() const { return weights_bytes + kv_bytes + scratch_bytes; }
  bool fits() const { return budget_bytes == 0 || memory_bytes() <= budget_bytes; }
};

struct Plan {
  bool fits = false;
  bool speeds_known = false;
  std::vector<PlanStage> stages;
  double latency_s_per_token = 0;  // one sequence alone; speeds_known only
  double tokens_per_s = 0;         // all sequences; speeds_known only
  double prompt_tokens_per_s = 0;  // 0: not known
  std::vector<std::string> notes;  // why it is so, for people
};

// InvalidArgument: the explicit ranges are no exact cover (names line, worker, layer). Needs no
// worker, so that a wrong topology is refused before any is asked.
absl::Status CheckGivenLayers(const PlanRequest& request);

// InvalidArgument as above. What does not fit is a plan that says so, the one that comes nearest.
absl::StatusOr<Plan> MakePlan(const PlanRequest& request);

// What a range costs on a worker.
PlanStage StageOn(const PlanRequest& request, size_t worker, engine::LayerRange layers);
// The plan's measure: what MakePlan makes least. For tests.
struct PlanScore {
  double slowest_s = 0;
  double sum_s = 0;  // with links
};
PlanScore ScoreOf(const PlanRequest& request, const std::vector<PlanStage>& stages);

// For people: a table, a picture, why. `parts[i]`: files that stage i needs.
std::string PlanToText(const PlanRequest& request, const Plan& plan);
// As CLI.md has it.
nlohmann::ordered_json PlanToJson(const PlanRequest& request, const Plan& plan,
                                  const std::vector<std::vector<std::string>>& parts);

}  // namespace baton::coordinator
