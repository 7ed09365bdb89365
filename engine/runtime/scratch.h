// Activations of one micro-batch on its way through a stage's layers: allocated once for the
// largest one.
//
// Owner: a stage; its compute thread is the only user. Each buffer is a name for what it holds;
// views of a layer's own width are packed, so that a row of heads is also a matrix of heads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"
#include "engine/arch/scratch_plan.h"
#include "engine/backend/backend.h"
#include "engine/base/status.h"

namespace baton::engine {

class Scratch {
 public:
  static absl::StatusOr<Scratch> Create(const HyperParams& hyperparams, LayerRange layers,
                                        int32_t max_rows, Backend& backend);

  // [rows, cols], packed; within what Create made room for.
  Activations View(Buffer buffer, int32_t rows, int32_t cols) const {
    return {starts_[static_cast<size_t>(buffer)], rows, cols, cols};
  }
  uint64_t bytes() const { return memory_->bytes(); }

 private:
  std::unique_ptr<DeviceBuffer> memory_;
  std::array<float*, kNumBuffers> starts_ = {};
};

}  // namespace baton::engine
