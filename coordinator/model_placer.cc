#include "coordinator/model_placer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "engine/arch/stage_spec.h"

namespace baton::coordinator {
namespace {

constexpr int64_t kMaxKvBlocks = int64_t{1} << 26;

PlanWorker ToPlanWorker(const WorkerEntry& entry) {
  PlanWorker worker;
  worker.name = entry.name;
  worker.memory_bytes = entry.memory_bytes;
  worker.read_bytes_per_s = entry.memory_gbps * 1e9;
  worker.flops_per_s = entry.compute_gflops * 1e9;
  worker.layers = entry.layers;
  worker.num_layers = entry.num_layers;
  worker.line = entry.line;
  return worker;
}

// What this worker may use: its budget, or its share of what its host has free.
uint64_t BudgetOf(const WorkerEntry& entry, const wire::WorkerInfo& info, int workers_of_host) {
  if (entry.memory_bytes > 0) return entry.memory_bytes;
  if (info.memory_budget_bytes > 0) return info.memory_budget_bytes;
  const uint64_t own = info.loaded ? info.stage.kv_bytes : 0;  // would be given back by a new load
  return (info.memory_available_bytes + own) / std::max(workers_of_host, 1);
}

// Links by name into the planner's matrix; what is not given is free.
absl::StatusOr<std::vector<std::vector<PlanLink>>> LinkMatrix(const Topology& topology) {
  if (topology.links.empty()) return std::vector<std::vector<PlanLink>>();
  const size_t size = topology.workers.size() + 1;
  std::vector<std::vector<PlanLink>> matrix(size, std::vector<PlanLink>(size));
  const auto index_of = [&](const std::string& name) -> size_t {
    if (name == "coordinator") return 0;
    for (size_t i = 0; i + 1 < size; ++i) {
      if (topology.workers[i].name == name) return i + 1;
    }
    return size;
  };
  for (const LinkEntry& link : topology.links) {
    const size_t from = index_of(link.from), to = index_of(link.to);
    if (from == size || to == size) {
      return InvalidArgument("{}:{}: links: there is no worker {}", topology.file, link.line,
                             from == size ? link.from : link.to);
    }
    matrix[from][to] = matrix[to][from] = {absl::ToDoubleSeconds(link.latency), link.bytes_per_s};
  }
  return matrix;
}

std::string Gibibytes(uint64_t bytes) { return fmt::format("{:.2f} GiB", bytes / 1073741824.0); }

absl::Status DoesNotFit(const PlanRequest& request, const Plan& plan) {
  std::string what;
  for (const PlanStage& stage : plan.stages) {
    if (stage.fits()) continue;
    what += fmt::format("{}worker {} needs {} for layers {}-{} ({} weights, {} KV cache), has {}",
                        what.empty() ? "" : "; ", request.workers[stage.worker].name,
                        Gibibytes(stage.memory_bytes()), stage.layers.begin, stage.layers.end - 1,
                        Gibibytes(stage.weights_bytes), Gibibytes(stage.kv_bytes),
                        Gibibytes(stage.budget_bytes));
  }
  return ResourceExhausted(
      "plan: the model does not fit: {}; lower `context` or `sequences`, raise `memory` or add a "
      "worker",
      what);
}

}  // namespace

absl::StatusOr<int32_t> NumKvBlocks(const Topology& topology, int32_t context_length) {
  const int64_t of_context =
      (int64_t{context_length} + engine::kKvBlockPositions - 1) / engine::kKvBlockPositions;
  const int64_t blocks =
      topology.limits.kv_blocks > 0 ? topology.limits.kv_blocks : of_context * topology.sequences;
  if (blocks < of_context) {
    return InvalidArgument(
        "{}: limits.kv_blocks: {}, expected at least the {} of one context of {}", topology.file,
        blocks, of_context, context_length);
  }
  if (blocks > kMaxKvBlocks) {
    return InvalidArgument(
        "{}: context: {} positions for {} sequences are {} KV blocks, expected at most {}",
        topology.file, context_length, topology.sequences, blocks, kMaxKvBlocks);
  }
  return static_cast<int32_t>(blocks);
}

absl::StatusOr<PlanRequest> MakePlanRequest(const Topology& topology, const ServedModel& model) {
  PlanRequest request;
  request.file = topology.file;
  request.cost = model.cost();
  request.hidden_size = model.hyperparams().hidden_size;
  ASSIGN_OR_RETURN(const int32_t blocks, NumKvBlocks(topology, model.summary().context_length));
  const int64_t positions = int64_t{blocks} * engine::kKvBlockPositions;
  request.kv_positions =
      static_cast<int32_t>(std::min<int64_t>(positions, std::numeric_limits<int32_t>::max()));
  request.scratch_bytes = engine::ScratchBytes(
      model.hyperparams(), {0, model.hyperparams().num_layers}, topology.limits.batch_rows);
  request.sequences = topology.sequences;
  request.objective = topology.objective;
  for (const WorkerEntry& entry : topology.workers) request.workers.push_back(ToPlanWorker(entry));
  ASSIGN_OR_RETURN(request.links, LinkMatrix(topology));
  return request;
}

absl::StatusOr<OfflinePlan> PlanOffline(const Topology& topology) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ServedModel> model, ServedModel::Open(topology));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelPlacer> placer,
                   ModelPlacer::Create(topology, model.get()));
  OfflinePlan offline;
  ASSIGN_OR_RETURN(offline.request, MakePlanRequest(topology, *model));
  ASSIGN_OR_RETURN(offline.plan, MakePlan(offline.request));
  for (const PlanStage& stage : offline.plan.stages) {
    ASSIGN_OR_RETURN(const wire::LoadRequest request, placer->MakeLoadRequest(stage.layers));
    std::set<uint32_t> used;
    for (const engine::TensorPlacement& tensor : request.spec.tensors) used.insert(tensor.part);
    std::vector<std::string>& files = offline.parts.emplace_back();
    for (const uint32_t part : used) files.push_back(request.spec.parts[part].file_name);
  }
  return offline;
}

absl::StatusOr<std::unique_ptr<ModelPlacer>> ModelPlacer::Create(const Topology& topology,
                                                                 const ServedModel* model) {
  std::unique_ptr<ModelPlacer> placer(new ModelPlacer(topology, model));
  ASSIGN_OR_RETURN(placer->base_, MakePlanRequest(topology, *model));
  ASSIGN_OR_RETURN(placer->num_kv_blocks_, NumKvBlocks(topology, model->summary().context_length));
  return placer;
}

absl::StatusOr<std::vector<Placement>> ModelPlacer::Place(const WorkerRegistry& registry,
                                                          const std::vector<size_t>& workers) {
  // Explicit ranges were made for all workers; without one of them, the others share.
  const bool all =
      static_cast<size_t>(std::count_if(workers.begin(), workers.end(),
                                        [&](size_t w) { return !registry.is_spare(w); })) ==
          topology_.workers.size() &&
      workers.size() == topology_.workers.size();
  std::map<std::string, int> workers_of_host;
  for (const size_t worker : workers) ++workers_of_host[registry.info(worker).host_id];
  PlanRequest request = base_;
  request.workers.clear();
  for (const size_t worker : workers) {
    const wire::WorkerInfo info = registry.info(worker);
    PlanWorker plan_worker = ToPlanWorker(registry.entry(worker));
    const int sharing = info.host_id.empty() ? 1 : workers_of_host[info.host_id];
    plan_worker.memory_bytes = BudgetOf(registry.entry(worker), info, sharing);
    if (!all) {
      plan_worker.layers.reset();
      plan_worker.num_layers.reset();
    }
    request.workers.push_back(plan_worker);
  }
  if (!all) request.links.clear();
  ASSIGN_OR_RETURN(const Plan plan, MakePlan(request));
  if (!plan.fits) return DoesNotFit(request, plan);
  std::vector<Placement> placement;
  for (const PlanStage& stage : plan.stages)
    placement.push_back({workers[stage.worker], stage.layers});
  return placement;
}

absl::Status ModelPlacer::CheckFits(const WorkerRegistry& registry, const Placement& placement) {
  PlanRequest request = base_;
  request.workers = {ToPlanWorker(registry.entry(placement.worker))};
  request.workers[0].memory_bytes =
      BudgetOf(registry.entry(placement.worker), registry.info(placement.worker), 1);
  Plan plan;
  plan.stages = {StageOn(request, 0, placement.layers)};
  return plan.stages[0].fits() ? absl::OkStatus() : DoesNotFit(request, plan);
}

absl::StatusOr<wire::LoadRequest> ModelPlacer::MakeLoadRequest(engine::LayerRange layers) {
  wire::LoadRequest request;
  ASSIGN_OR_RETURN(request.spec,
                   engine::MakeStageSpec(model_->file(), model_->hyperparams(), layers,
                                         model_->summary().context_length, num_kv_blocks_,
                                         topology_.limits.batch_rows, topology_.kv_type));
  request.wire_type = topology_.wire;
  if (topology_.fetch_parts) {
    for (const WorkerEntry& worker : topology_.workers)
      request.part_sources.push_back(worker.address);
  }
  return request;
}

}  // namespace baton::coordinator
