// Divides the served model among workers as they are found: what they say of themselves goes into
// the planner, what comes out becomes load requests.
//
// Owner: the coordinator; called by recovery, by one of its threads at a time, but for
// MakeLoadRequest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/planner.h"
#include "coordinator/recovery.h"
#include "coordinator/served_model.h"
#include "coordinator/speed_book.h"
#include "coordinator/topology.h"
#include "engine/base/user_folders.h"

namespace baton::coordinator {

// KV blocks of the whole pool, on each stage. InvalidArgument where the numbers do not make sense.
absl::StatusOr<int32_t> NumKvBlocks(const Topology& topology, int32_t context_length);

// The request without workers' own words: as `baton plan` makes it, without asking anybody.
absl::StatusOr<PlanRequest> MakePlanRequest(const Topology& topology, const ServedModel& model,
                                            const SpeedBook& speeds);

// Plans from the topology and the model's headers alone.
struct OfflinePlan {
  PlanRequest request;
  Plan plan;
  std::vector<std::vector<std::string>> parts;  // files that each stage needs
};
absl::StatusOr<OfflinePlan> PlanOffline(const Topology& topology);

class ModelPlacer : public Placer {
 public:
  static absl::StatusOr<std::unique_ptr<ModelPlacer>> Create(const Topology& topology,
                                                             const ServedModel* model);
  // From now on for the workers and links of this topology, of the same model; an error changes
  // nothing.
  absl::Status SetTopology(const Topology& topology);

  absl::StatusOr<std::vector<Placement>> Place(const WorkerRegistry& registry,
                                               const std::vector<size_t>& workers) override;
  absl::Status CheckFits(const WorkerRegistry& registry, const Placement& placement) override;
  std::string fingerprint() const override { return model_->summary().fingerprint; }
  int32_t num_layers() const override { return model_->hyperparams().num_layers; }
  absl::StatusOr<wire::LoadRequest> MakeLoadRequest(engine::LayerRange layers) override;
  bool WantsMeasure(const WorkerRegistry& registry, size_t worker) override;
  bool Learn(WorkerRegistry* registry, const std::vector<Placement>& loaded) override;

  int32_t num_kv_blocks() const { return num_kv_blocks_; }

 private:
  ModelPlacer(const Topology& topology, const ServedModel* model)
      : topology_(topology),
        model_(model),
        speeds_(SpeedBook::Open(topology.measure ? engine::StateFolder() : "",
                                model->summary().fingerprint)) {}
  absl::StatusOr<PlanWorker> Describe(const WorkerRegistry& registry, size_t worker,
                                      int workers_of_host);
  absl::StatusOr<std::vector<bool>> LayersOf(const wire::WorkerInfo& info);

  Topology topology_;
  const ServedModel* const model_;
  PlanRequest base_;  // workers as in the topology
  SpeedBook speeds_;
  int32_t num_kv_blocks_ = 0;
};

}  // namespace baton::coordinator
