#include "engine/backend/cuda_memory.h"

#include <bit>
#include <utility>

namespace baton::engine {

using kernels::CudaApi;
using kernels::kCudaOk;

absl::Status CudaStatus(const CudaApi& cuda, kernels::CudaError error, std::string_view where) {
  if (error == kCudaOk) return absl::OkStatus();
  if (error == kernels::kCudaOutOfMemory)
    return ResourceExhausted("{}: {}", where, cuda.error_text(error));
  return Internal("{}: {} (CUDA error {})", where, cuda.error_text(error), error);
}

absl::StatusOr<std::unique_ptr<CudaBuffer>> CudaBuffer::Allocate(const CudaApi& cuda,
                                                                 size_t bytes) {
  void* data = nullptr;
  const kernels::CudaError error = cuda.allocate(bytes > 0 ? bytes : 1, &data);
  if (error == kernels::kCudaOutOfMemory) {
    uint64_t free_bytes = 0, total_bytes = 0;
    cuda.memory_info(&free_bytes, &total_bytes);
    return ResourceExhausted("cuda: {} bytes asked for, {} of {} are free", bytes, free_bytes,
                             total_bytes);
  }
  RETURN_IF_ERROR(CudaStatus(cuda, error, fmt::format("cuda: {} bytes asked for", bytes)));
  return std::unique_ptr<CudaBuffer>(new CudaBuffer(cuda, data, bytes));
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> CudaPool::Get(size_t bytes) {
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 256));
  auto& free = (*free_)[size];
  std::unique_ptr<CudaBuffer> buffer;
  if (free.empty()) {
    ASSIGN_OR_RETURN(buffer, CudaBuffer::Allocate(cuda_, size));
  } else {
    buffer = std::move(free.back());
    free.pop_back();
  }
  return std::shared_ptr<DeviceBuffer>(buffer.release(), [lists = free_](DeviceBuffer* p) {
    auto* back = static_cast<CudaBuffer*>(p);
    (*lists)[back->bytes()].emplace_back(back);
  });
}

// ---- pinned memory ------------------------------------------------------------------------------

CudaPinned::~CudaPinned() {
  if (copied_ == nullptr) return;
  cuda_.wait_event(copied_);
  cuda_.destroy_event(copied_);
  if (data_ != nullptr) cuda_.release_pinned(data_);
}

absl::StatusOr<void*> CudaPinned::Reserve(size_t bytes) {
  if (copied_ == nullptr) {
    RETURN_IF_ERROR(CudaStatus(cuda_, cuda_.create_event(&copied_), "cuda: an event"));
  }
  RETURN_IF_ERROR(Wait());
  if (bytes <= bytes_) return data_;
  if (data_ != nullptr) cuda_.release_pinned(std::exchange(data_, nullptr));
  bytes_ = 0;
  const size_t size = std::bit_ceil(std::max<size_t>(bytes, 4096));
  RETURN_IF_ERROR(CudaStatus(cuda_, cuda_.allocate_pinned(size, &data_),
                             fmt::format("cuda: {} bytes of pinned memory", size)));
  bytes_ = size;
  return data_;
}

absl::Status CudaPinned::NoteCopy(kernels::CudaStream stream) {
  return CudaStatus(cuda_, cuda_.record_event(copied_, stream), "cuda: a copy");
}
absl::Status CudaPinned::Wait() {
  return CudaStatus(cuda_, cuda_.wait_event(copied_), "cuda: a copy");
}

// ---- copies that overlap ------------------------------------------------------------------------

CudaArrivals::CudaArrivals(const CudaApi& cuda) : cuda_(cuda), ring_(8) {
  for (auto& pinned : ring_) pinned = std::make_unique<CudaPinned>(cuda);
}

class CudaDepartures::Copy final : public HostCopy {
 public:
  Copy(CudaDepartures& home, std::unique_ptr<Place> place, size_t count)
      : home_(home), place_(std::move(place)), count_(count) {}
  ~Copy() override { home_.free_.push_back(std::move(place_)); }

  absl::Status Take(std::vector<float>& to) override {
    RETURN_IF_ERROR(place_->host.Wait());
    const auto* from = static_cast<const float*>(place_->host.data());
    to.assign(from, from + count_);
    return absl::OkStatus();
  }

 private:
  CudaDepartures& home_;
  std::unique_ptr<Place> place_;
  const size_t count_;
};

absl::StatusOr<std::unique_ptr<CudaDepartures>> CudaDepartures::Create(const CudaApi& cuda) {
  std::unique_ptr<CudaDepartures> departures(new CudaDepartures(cuda));
  RETURN_IF_ERROR(
      CudaStatus(cuda, cuda.create_stream(&departures->stream_), "cuda: a stream for copies"));
  RETURN_IF_ERROR(CudaStatus(cuda, cuda.create_event(&departures->computed_), "cuda: an event"));
  return departures;
}

CudaDepartures::~CudaDepartures() {
  free_.clear();
  if (computed_ != nullptr) cuda_.destroy_event(computed_);
  if (stream_ != nullptr) cuda_.destroy_stream(stream_);
}

absl::StatusOr<std::unique_ptr<HostCopy>> CudaDepartures::Start(kernels::CudaMatrix from,
                                                                kernels::CudaStream computing) {
  if (free_.empty()) free_.push_back(std::make_unique<Place>(cuda_));
  std::unique_ptr<Place> place = std::move(free_.back());
  free_.pop_back();
  RETURN_IF_ERROR(Queue(from, computing, *place));
  return std::make_unique<Copy>(*this, std::move(place),
                                static_cast<size_t>(from.rows) * static_cast<size_t>(from.cols));
}

absl::Status CudaDepartures::Queue(kernels::CudaMatrix from, kernels::CudaStream computing,
                                   Place& place) {
  const size_t bytes = sizeof(float) * static_cast<size_t>(from.rows) * from.cols;
  ASSIGN_OR_RETURN(void* host, place.host.Reserve(bytes));
  if (place.device == nullptr || place.device->bytes() < bytes) {
    ASSIGN_OR_RETURN(place.device, CudaBuffer::Allocate(cuda_, std::bit_ceil(bytes)));
  }
  const kernels::CudaMatrix aside = {static_cast<float*>(place.device->data()), from.rows,
                                     from.cols, from.cols};
  cuda_.copy(from, aside, computing);
  const char* where = "cuda: a copy to the host";
  RETURN_IF_ERROR(CudaStatus(cuda_, cuda_.record_event(computed_, computing), where));
  RETURN_IF_ERROR(CudaStatus(cuda_, cuda_.await_event(stream_, computed_), where));
  RETURN_IF_ERROR(
      CudaStatus(cuda_, cuda_.download_rows(aside, static_cast<float*>(host), stream_), where));
  return place.host.NoteCopy(stream_);
}

// ---- weights ------------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<CudaUploader>> CudaUploader::Create(const CudaApi& cuda) {
  std::unique_ptr<CudaUploader> uploader(new CudaUploader(cuda));
  for (Part& part : uploader->parts_) {
    RETURN_IF_ERROR(CudaStatus(cuda, cuda.allocate_pinned(kPartBytes, &part.host),
                               "cuda: pinned memory to upload weights through"));
    const kernels::CudaError error = cuda.create_stream(&part.stream);
    RETURN_IF_ERROR(CudaStatus(cuda, error, "cuda: a stream to upload weights"));
    part.made = true;
  }
  return uploader;
}

CudaUploader::~CudaUploader() {
  for (const Part& part : parts_) {
    if (part.made) cuda_.destroy_stream(part.stream);
    if (part.host != nullptr) cuda_.release_pinned(part.host);
  }
}

absl::Status CudaUploader::Wait(int part) {
  return CudaStatus(cuda_, cuda_.wait(parts_[part].stream), "cuda: upload of weights");
}
absl::Status CudaUploader::Send(int part, void* to, size_t bytes) {
  return CudaStatus(cuda_, cuda_.upload(to, parts_[part].host, bytes, parts_[part].stream),
                    "cuda: upload of weights");
}

}  // namespace baton::engine
