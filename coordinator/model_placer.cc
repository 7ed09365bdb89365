#include "coordinator/model_placer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "engine/arch/stage_spec.h"

namespace baton::coordinator {
namespace {

constexpr std::string_view kCoordinatorName = "coordinator";
constexpr int64_t kMaxKvBlocks = int64_t{1} << 26;

PlanWorker ToPlanWorker(const WorkerEntry& entry) {
  PlanWorker worker;
  worker.name = entry.name;
  worker.memory_bytes = entry.memory_bytes;
  worker.read_bytes_per_s = entry.memory_gbps * 1e9;
  worker.flops_per_s = entry.compute_gflops * 1e9;
  worker.weight = entry.weight;
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
  // A stage that may be divided has the host's memory, too.
  const uint64_t host = entry.gpu_layers ? info.host_memory_available_bytes : 0;
  return (info.memory_available_bytes + host + own) / std::max(workers_of_host, 1);
}

// Links among the coordinator and these workers: those of the topology, else what was measured;
// what nobody knows is free.
absl::StatusOr<std::vector<std::vector<PlanLink>>> LinkMatrix(
    const Topology& topology, const SpeedBook& speeds, const std::vector<PlanWorker>& workers) {
  std::vector<std::string> names = {std::string(kCoordinatorName)};
  for (const PlanWorker& worker : workers) names.push_back(worker.name);
  std::vector<std::vector<PlanLink>> matrix(names.size(), std::vector<PlanLink>(names.size()));
  bool any = false;
  for (size_t from = 0; from < names.size(); ++from) {
    for (size_t to = from + 1; to < names.size(); ++to) {
      const auto link = speeds.FindLink(names[from], names[to]);
      if (!link) continue;
      matrix[from][to] = matrix[to][from] = *link;
      any = true;
    }
  }
  const auto index_of = [&](const std::string& name) {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  for (const LinkEntry& link : topology.links) {
    const size_t from = index_of(link.from), to = index_of(link.to);
    if (from == names.size() || to == names.size()) continue;  // of one that is not there now
    matrix[from][to] = matrix[to][from] = {absl::ToDoubleSeconds(link.latency), link.bytes_per_s};
    any = true;
  }
  if (!any) matrix.clear();
  return matrix;
}

absl::Status CheckLinkNames(const Topology& topology) {
  const auto known = [&](const std::string& name) {
    const auto named = [&](const WorkerEntry& entry) { return entry.name == name; };
    return name == kCoordinatorName || std::ranges::any_of(topology.workers, named) ||
           std::ranges::any_of(topology.spares, named);
  };
  for (const LinkEntry& link : topology.links) {
    for (const std::string& name : {link.from, link.to}) {
      if (known(name)) continue;
      return InvalidArgument("{}:{}: links: there is no worker {}", topology.file, link.line, name);
    }
  }
  return absl::OkStatus();
}

void UseSpeed(const WorkerSpeed& speed, PlanWorker* worker) {
  worker->read_bytes_per_s = speed.read_bytes_per_s;
  worker->flops_per_s = speed.flops_per_s;
  worker->prompt_flops_per_s = speed.prompt_flops_per_s;
  worker->alone_read_bytes_per_s = speed.alone_read_bytes_per_s;
}

// Workers of one host with one kind of backend are alike: where their measures differ by little,
// that is noise, and all get the mean. An empty kind: of its own.
void EvenOut(const std::vector<std::string>& kinds, std::vector<PlanWorker>* workers) {
  constexpr double kNoise = 1.5;
  std::map<std::string, std::vector<PlanWorker*>> alike;
  for (size_t i = 0; i < workers->size(); ++i) {
    if (!kinds[i].empty()) alike[kinds[i]].push_back(&(*workers)[i]);
  }
  for (const auto& [kind, same] : alike) {
    for (double PlanWorker::*figure :
         {&PlanWorker::read_bytes_per_s, &PlanWorker::alone_read_bytes_per_s,
          &PlanWorker::flops_per_s, &PlanWorker::prompt_flops_per_s}) {
      double least = same[0]->*figure, most = least, sum = 0;
      for (const PlanWorker* worker : same) {
        least = std::min(least, worker->*figure);
        most = std::max(most, worker->*figure);
        sum += worker->*figure;
      }
      if (most > kNoise * least) continue;
      for (PlanWorker* worker : same) worker->*figure = sum / static_cast<double>(same.size());
    }
  }
}

PlanLink ToLink(const wire::LinkSpeed& speed) {
  return {.latency_s = speed.round_trip_us / 2e6, .bytes_per_s = speed.bytes_per_s};
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

absl::StatusOr<PlanRequest> MakePlanRequest(const Topology& topology, const ServedModel& model,
                                            const SpeedBook& speeds) {
  RETURN_IF_ERROR(CheckLinkNames(topology));
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
  request.any_order = topology.any_order;
  std::vector<std::string> kinds;  // as far as a file says so
  for (const WorkerEntry& entry : topology.workers) {
    PlanWorker& worker = request.workers.emplace_back(ToPlanWorker(entry));
    std::string& kind = kinds.emplace_back();
    if (worker.read_bytes_per_s > 0) continue;  // somebody's own figures
    kind = fmt::format("{} {} {}", entry.address.substr(0, entry.address.rfind(':')), entry.device,
                       entry.threads);
    if (const auto speed = speeds.Find(entry.name, "")) UseSpeed(*speed, &worker);
  }
  EvenOut(kinds, &request.workers);
  ASSIGN_OR_RETURN(request.links, LinkMatrix(topology, speeds, request.workers));
  return request;
}

absl::StatusOr<OfflinePlan> PlanOffline(const Topology& topology) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ServedModel> model, ServedModel::Open(topology));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelPlacer> placer,
                   ModelPlacer::Create(topology, model.get()));
  OfflinePlan offline;
  ASSIGN_OR_RETURN(offline.request, MakePlanRequest(topology, *model,
                                                    SpeedBook::Open(engine::StateFolder(),
                                                                    model->summary().fingerprint)));
  ASSIGN_OR_RETURN(offline.plan, MakePlan(offline.request));
  std::set<uint32_t> nobodys;  // without tensors: the metadata of a set may be a part of its own
  for (uint32_t part = 0; part < model->file().parts().size(); ++part) nobodys.insert(part);
  for (const PlanStage& stage : offline.plan.stages) {
    ASSIGN_OR_RETURN(const wire::LoadRequest request, placer->MakeLoadRequest(stage.layers));
    std::set<uint32_t> used;
    for (const engine::TensorPlacement& tensor : request.spec.tensors) used.insert(tensor.part);
    std::vector<std::string>& files = offline.parts.emplace_back();
    for (const uint32_t part : used) {
      files.push_back(request.spec.parts[part].file_name);
      nobodys.erase(part);
    }
  }
  // Somebody must keep them, for a coordinator that takes the headers from workers.
  for (const uint32_t part : nobodys)
    offline.parts[0].push_back(model->file().parts()[part].file_name);
  return offline;
}

absl::StatusOr<std::unique_ptr<ModelPlacer>> ModelPlacer::Create(const Topology& topology,
                                                                 const ServedModel* model) {
  std::unique_ptr<ModelPlacer> placer(new ModelPlacer(topology, model));
  ASSIGN_OR_RETURN(placer->base_, MakePlanRequest(topology, *model, placer->speeds_));
  RETURN_IF_ERROR(CheckGivenLayers(placer->base_));
  ASSIGN_OR_RETURN(placer->num_kv_blocks_, NumKvBlocks(topology, model->summary().context_length));
  return placer;
}

absl::Status ModelPlacer::SetTopology(const Topology& topology) {
  ASSIGN_OR_RETURN(PlanRequest base, MakePlanRequest(topology, *model_, speeds_));
  RETURN_IF_ERROR(CheckGivenLayers(base));
  base_ = std::move(base);
  topology_ = topology;
  return absl::OkStatus();
}

// A worker as it is now: its own memory and speed, and the layers whose parts it has.
absl::StatusOr<PlanWorker> ModelPlacer::Describe(const WorkerRegistry& registry, size_t index,
                                                 int workers_of_host) {
  const wire::WorkerInfo info = registry.info(index);
  const WorkerEntry entry = registry.entry(index);
  PlanWorker worker = ToPlanWorker(entry);
  worker.memory_bytes = BudgetOf(entry, info, workers_of_host);
  ASSIGN_OR_RETURN(worker.has_layer, LayersOf(info));
  if (worker.read_bytes_per_s == 0) {
    if (const auto speed = speeds_.Find(entry.name, info.backend)) UseSpeed(*speed, &worker);
  }
  return worker;
}

// Empty: all, or not known. One that has nothing of this model is told to load all the same: its
// error names the file.
absl::StatusOr<std::vector<bool>> ModelPlacer::LayersOf(const wire::WorkerInfo& info) {
  if (info.files.empty() || topology_.fetch_parts) return std::vector<bool>();
  const std::vector<engine::GgufModel::Part>& parts = model_->file().parts();
  std::vector<bool> has_part;
  for (const engine::GgufModel::Part& part : parts) {
    has_part.push_back(std::ranges::any_of(info.files, [&](const engine::PartFile& file) {
      return file.file_name == part.file_name;
    }));
  }
  const auto missing = std::ranges::count(has_part, false);
  if (missing == 0 || missing == std::ssize(has_part)) return std::vector<bool>();
  std::vector<bool> has_layer;
  for (int32_t layer = 0; layer < model_->hyperparams().num_layers; ++layer) {
    ASSIGN_OR_RETURN(const wire::LoadRequest one, MakeLoadRequest({layer, layer + 1}));
    has_layer.push_back(std::ranges::all_of(
        one.spec.tensors,
        [&](const engine::TensorPlacement& tensor) { return has_part[tensor.part]; }));
  }
  return has_layer;
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
  std::vector<std::string> kinds;
  for (const size_t worker : workers) {
    const wire::WorkerInfo info = registry.info(worker);
    const int sharing = info.host_id.empty() ? 1 : workers_of_host[info.host_id];
    ASSIGN_OR_RETURN(PlanWorker plan_worker, Describe(registry, worker, sharing));
    const bool given = registry.entry(worker).memory_gbps > 0;
    kinds.push_back(given ? "" : info.host_id + " " + info.backend);
    if (!all) {
      plan_worker.layers.reset();
      plan_worker.num_layers.reset();
    }
    request.workers.push_back(std::move(plan_worker));
  }
  EvenOut(kinds, &request.workers);
  ASSIGN_OR_RETURN(request.links, LinkMatrix(topology_, speeds_, request.workers));
  absl::StatusOr<Plan> plan = MakePlan(request);
  if (!topology_.hub.empty() && (!plan.ok() || !plan->fits)) {
    // What hosts have is where to begin; what they lack can be had.
    for (PlanWorker& worker : request.workers) worker.has_layer.clear();
    plan = MakePlan(request);
  }
  RETURN_IF_ERROR(plan.status());
  if (!plan->fits) return DoesNotFit(request, *plan);
  std::vector<Placement> placement;
  for (const PlanStage& stage : plan->stages)
    placement.push_back({workers[stage.worker], stage.layers});
  return placement;
}

bool ModelPlacer::WantsMeasure(const WorkerRegistry& registry, size_t worker) {
  return topology_.measure &&
         !speeds_.Find(registry.entry(worker).name, registry.info(worker).backend);
}

bool ModelPlacer::Learn(WorkerRegistry* registry, const std::vector<Placement>& loaded) {
  bool learned = false;
  for (size_t i = 0; i < loaded.size(); ++i) {
    const size_t worker = loaded[i].worker;
    const wire::LoadedStage stage = registry->loaded(worker);
    const std::string name = registry->entry(worker).name;
    const auto speed = SpeedOf(engine::CostOfStage(model_->cost(), loaded[i].layers), stage.speed);
    if (!speed) continue;
    learned = true;
    speeds_.Note(name, registry->info(worker).backend, *speed);
    if (stage.next_link.round_trip_us > 0 && i + 1 < loaded.size()) {
      speeds_.NoteLink(name, registry->entry(loaded[i + 1].worker).name, ToLink(stage.next_link));
    }
    if (const auto link = registry->MeasureLink(worker); link.ok())
      speeds_.NoteLink(kCoordinatorName, name, ToLink(*link));
  }
  if (!learned) return false;
  if (const absl::Status saved = speeds_.Save(); !saved.ok())
    spdlog::warn("measured speeds: {}", Message(saved));
  return true;
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
  request.topology_hash = topology_.text_hash;
  if (topology_.fetch_parts) {
    for (const WorkerEntry& worker : topology_.workers)
      request.part_sources.push_back(worker.address);
  }
  if (!topology_.hub.empty()) request.part_sources.push_back(topology_.hub);
  return request;
}

}  // namespace baton::coordinator
