#include "engine/backend/cuda_recording.h"

#include <utility>

#include "engine/backend/cuda_backend.h"

namespace baton::engine {
namespace {

// With more rows kernels are long enough to be queued one by one, and shapes are many.
constexpr size_t kMostRecordedRows = 32;

}  // namespace

CudaRecorded::~CudaRecorded() {
  if (recording_ != nullptr) cuda_.release_recording(recording_);
}

bool CudaRecorded::Begin(kernels::CudaStream stream) {
  ++attempts_;
  failed_ = false;
  return cuda_.begin_recording(stream) == kernels::kCudaOk;
}

void CudaRecorded::End(kernels::CudaStream stream) {
  const bool ended = cuda_.end_recording(stream, &recording_) == kernels::kCudaOk;
  if (ended && failed_) cuda_.release_recording(std::exchange(recording_, nullptr));
  if (recording_ == nullptr) buffers_.clear();
}

CudaRecorded& CudaRepeatedWork::Of(const CudaWorkShape& shape, uint64_t moves) {
  if (moves != std::exchange(moves_, moves)) by_shape_.clear();
  if (const auto found = by_shape_.find(shape); found != by_shape_.end()) return found->second;
  if (by_shape_.size() == kMostShapes) by_shape_.clear();
  return by_shape_.try_emplace(shape, cuda_).first->second;
}

void CudaBackend::Repeat(const BatchLayout& layout, std::unique_ptr<RepeatedWork>& kept,
                         const std::function<void()>& work) {
  const size_t rows = layout.positions.size();
  if (!Ready() || rows == 0 || rows > kMostRecordedRows) return work();
  LayoutOf(layout);  // goes up now: a recording holds no copies from the host
  if (kept == nullptr) kept = std::make_unique<CudaRepeatedWork>(cuda_);
  CudaRecorded& recorded = static_cast<CudaRepeatedWork&>(*kept).Of(ShapeOf(layout), moves_);

  if (recorded.recording() == nullptr && recorded.worth_recording() && recorded.Begin(stream_)) {
    recording_ = &recorded;
    work();
    Ready();  // what waits belongs to it
    recording_ = nullptr;
    recorded.End(stream_);
  }
  if (recorded.recording() != nullptr) {
    NoteCuda(cuda_.replay(recorded.recording(), stream_), "replay");
    return;
  }
  work();
  recorded.NoteDone();
}

bool CudaBackend::MayTouchHost() {
  if (recording_ != nullptr) recording_->Fail();
  return recording_ == nullptr;
}

}  // namespace baton::engine
