#include "engine/runtime/scratch.h"

#include "engine/arch/cost.h"

namespace baton::engine {

absl::StatusOr<Scratch> Scratch::Create(const HyperParams& hyperparams, LayerRange layers,
                                        int32_t max_rows, Backend& backend) {
  const ScratchPlan plan = PlanScratch(hyperparams, layers, max_rows);
  Scratch scratch;
  ASSIGN_OR_RETURN(scratch.memory_, backend.Allocate(ScratchBytes(hyperparams, layers, max_rows)));
  auto* memory = static_cast<float*>(scratch.memory_->data());
  for (size_t i = 0; i < plan.begins.size(); ++i) scratch.starts_[i] = memory + plan.begins[i];
  return scratch;
}

}  // namespace baton::engine
