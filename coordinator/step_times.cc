#include "coordinator/step_times.h"

#include <algorithm>

#include "coordinator/running_mean.h"

namespace baton::coordinator {
namespace {

constexpr double kWeightOfNewStep = 0.2;
// Fewer prompt rows alone say more about the weights' reading than about a row.
constexpr int32_t kRowsToMeasure = 8;

}  // namespace

void StepTimes::Add(int32_t stage, BatchRows rows, double compute_us) {
  if (stage < 0 || stage >= static_cast<int32_t>(stages_.size())) return;
  StageTimes& times = stages_[stage];
  MixIn(compute_us, kWeightOfNewStep, &times.step_us);
  if (rows.prompt == 0) {
    MixIn(compute_us, kWeightOfNewStep, &times.decode_us);
  } else if (rows.decode > 0 ? times.decode_us > 0 : rows.prompt >= kRowsToMeasure) {
    const double decode_us = rows.decode > 0 ? times.decode_us : 0;
    MixIn(std::max(compute_us - decode_us, compute_us * 0.1) / rows.prompt, kWeightOfNewStep,
          &times.prompt_row_us);
  }
}

double StepTimes::RowsLikeOneDecode() const {
  double rows = 1e6;
  for (const StageTimes& times : stages_) {
    if (times.decode_us == 0 || times.prompt_row_us == 0) return 0;
    rows = std::min(rows, times.decode_us / times.prompt_row_us);
  }
  return rows;
}

double StepTimes::slowest_us() const {
  double slowest = 0;
  for (const StageTimes& times : stages_) slowest = std::max(slowest, times.step_us);
  return slowest;
}

}  // namespace baton::coordinator
