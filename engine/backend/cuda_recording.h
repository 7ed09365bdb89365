// Kernels of a stage's layers, recorded: a decode step is hundreds of short ones, and queueing each
// would take longer than computing it.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "kernels/cuda/cuda_api.h"

namespace baton::engine {

// What of a micro-batch's layout the arguments of kernels depend on.
struct CudaWorkShape {
  int32_t rows = 0;
  int32_t neighbours = 0;  // of one sequence, as many as a kernel takes together
  int32_t chunks = 0;      // of positions
  auto operator<=>(const CudaWorkShape&) const = default;
};

// The kernels for layouts of one shape.
class CudaRecorded {
 public:
  explicit CudaRecorded(const kernels::CudaApi& cuda) : cuda_(cuda) {}
  ~CudaRecorded();
  CudaRecorded(const CudaRecorded&) = delete;
  CudaRecorded& operator=(const CudaRecorded&) = delete;

  // Scratch has its size, and what is copied once is there, when the work was done once.
  void NoteDone() { done_ = true; }
  bool worth_recording() const { return done_ && attempts_ < kMostAttempts; }
  // Between these the work is queued, and told of what it borrows or cannot have.
  bool Begin(kernels::CudaStream stream);
  void Keep(std::shared_ptr<DeviceBuffer> buffer) { buffers_.push_back(std::move(buffer)); }
  void Fail() { failed_ = true; }
  void End(kernels::CudaStream stream);

  kernels::CudaRecording recording() const { return recording_; }  // null: none

 private:
  static constexpr int kMostAttempts = 3;

  const kernels::CudaApi& cuda_;
  bool done_ = false, failed_ = false;
  int attempts_ = 0;
  kernels::CudaRecording recording_ = nullptr;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers_;  // that the kernels use: nobody else may
};

// Owner: a stage. One thread, the stage's.
class CudaRepeatedWork final : public RepeatedWork {
 public:
  explicit CudaRepeatedWork(const kernels::CudaApi& cuda) : cuda_(cuda) {}

  // `moves`: how often memory was moved that recordings know by its address; the older ones go.
  CudaRecorded& Of(const CudaWorkShape& shape, uint64_t moves);

 private:
  static constexpr size_t kMostShapes = 128;

  const kernels::CudaApi& cuda_;
  uint64_t moves_ = 0;
  std::map<CudaWorkShape, CudaRecorded> by_shape_;
};

}  // namespace baton::engine
