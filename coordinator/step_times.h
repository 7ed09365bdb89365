// How long micro-batches take, stage by stage, as measured lately: so that the scheduler can cut
// prompts to what running streams bear. Owner: the scheduler; one thread.
#pragma once

#include <cstdint>
#include <vector>

namespace baton::coordinator {

// What a micro-batch was made of.
struct BatchRows {
  int32_t decode = 0;
  int32_t prompt = 0;
};

class StepTimes {
 public:
  explicit StepTimes(int32_t num_stages) : stages_(num_stages) {}

  void Add(int32_t stage, BatchRows rows, double compute_us);
  // Prompt rows that cost no stage more than a decode step; 0: not known yet.
  double RowsLikeOneDecode() const;
  double slowest_us() const;  // of a recent micro-batch; 0: not known yet
  double stage_us(int32_t stage) const { return stages_[stage].step_us; }

 private:
  struct StageTimes {  // exponentially weighted means; 0: none yet
    double decode_us = 0;
    double prompt_row_us = 0;
    double step_us = 0;
  };
  std::vector<StageTimes> stages_;
};

}  // namespace baton::coordinator
