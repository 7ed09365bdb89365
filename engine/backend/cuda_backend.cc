#include "engine/backend/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/backend/cuda_devices.h"
#include "engine/base/units.h"
#include "kernels/cuda/device_layout.h"

namespace baton::engine {
namespace {

using kernels::CudaApi;

// What stays free: CUDA's own context and code, buffers of a micro-batch, the pads of weight rows.
constexpr uint64_t kContextBytes = 256 << 20;

// Rounded activations beside a matrix of `values` floats, twice for fine products: a byte each, a
// float for each 32, two bytes for each 16, and pads.
constexpr uint64_t ScratchBytes(uint64_t values) { return 2 * values * 21 / 16; }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Open(const CudaApi& cuda, int index) {
  kernels::CudaDevice device;
  RETURN_IF_ERROR(CudaStatus(cuda, cuda.describe_device(index, &device), "cuda"));
  RETURN_IF_ERROR(CheckKernels(cuda, device));
  std::unique_ptr<CudaBackend> backend(new CudaBackend(cuda, index, device));
  // Asks the driver for the kernels, so that none is missed at the first token.
  if (const int error = cuda.open_device(index); error != kernels::kCudaOk) {
    return FailedPrecondition("{}: {} (compute capability {}.{}, kernels for {})",
                              Describe(index, device), cuda.error_text(error), device.major,
                              device.minor, cuda.architectures);
  }
  backend->thread_ = std::this_thread::get_id();
  RETURN_IF_ERROR(CudaStatus(cuda, cuda.create_stream(&backend->stream_), backend->device_));
  return backend;
}

CudaBackend::CudaBackend(const CudaApi& cuda, int index, const kernels::CudaDevice& device)
    : cuda_(cuda),
      index_(index),
      info_(device),
      device_(fmt::format("cuda:{}", index)),
      name_(fmt::format("cuda:{} ({}, {})", index, device.name, FormatBytes(device.memory_bytes))),
      arrivals_(cuda),
      pool_(cuda) {}

CudaBackend::~CudaBackend() {
  if (thread_ == std::thread::id()) return;  // never opened
  cuda_.make_current(index_);
  cuda_.wait(stream_);
  cuda_.destroy_stream(stream_);
}

// ---- errors -------------------------------------------------------------------------------------

bool CudaBackend::Ready() {
  if (ReadyToTake()) QueueWaiting();
  return status_.ok();
}
bool CudaBackend::ReadyToTake() {
  if (thread_ != std::this_thread::get_id()) {
    NoteCuda(cuda_.make_current(index_), "change of thread");
    thread_ = std::this_thread::get_id();
  }
  if (!status_.ok()) waiting_ = {};
  return status_.ok();
}
void CudaBackend::Note(const absl::Status& status) {
  if (status_.ok() && !status.ok()) status_ = Prefixed(status, device_);
}
void CudaBackend::NoteCuda(kernels::CudaError error, std::string_view where) {
  if (error != kernels::kCudaOk) Note(CudaStatus(cuda_, error, where));
}

absl::Status CudaBackend::Sync() {
  Ready();
  NoteCuda(cuda_.wait(stream_), "while computing");
  return TakeError();
}
absl::Status CudaBackend::TakeError() { return std::exchange(status_, absl::OkStatus()); }

// ---- memory and weights -------------------------------------------------------------------------

std::optional<DeviceMemory> CudaBackend::device_memory() const {
  DeviceMemory memory{.device_id = info_.uuid};
  // Of the calling thread, which need not be the one that computes.
  if (cuda_.make_current(index_) != kernels::kCudaOk ||
      cuda_.memory_info(&memory.free_bytes, &memory.total_bytes) != kernels::kCudaOk) {
    memory.total_bytes = info_.memory_bytes;  // and nothing free: the next operation says why
  }
  return memory;
}

absl::Status CudaBackend::Plan(const MemoryNeed& need) {
  Ready();
  uint64_t free_bytes = 0, total_bytes = 0;
  RETURN_IF_ERROR(CudaStatus(cuda_, cuda_.memory_info(&free_bytes, &total_bytes), device_));
  const uint64_t scratch = need.scratch_bytes + ScratchBytes(need.largest_activations);
  const uint64_t wanted = need.weights_bytes + need.kv_bytes + scratch;
  // A small card, or one that others share, keeps a smaller reserve.
  const uint64_t reserve = std::min(kContextBytes, total_bytes / 16);
  if (wanted + reserve > free_bytes) {
    return ResourceExhausted(
        "{}: the stage does not fit: {} of {} are free\n"
        "  weights  {:>12}\n  KV cache {:>12}\n  scratch  {:>12}\n  reserve  {:>12}\n"
        "  together {:>12}\n"
        "Give it fewer layers, a shorter context or --kv-type q8_0",
        device_, FormatBytes(free_bytes), FormatBytes(total_bytes), FormatBytes(need.weights_bytes),
        FormatBytes(need.kv_bytes), FormatBytes(scratch), FormatBytes(reserve),
        FormatBytes(wanted + reserve));
  }
  const uint64_t values = need.largest_activations;
  ReserveBytes(values_, 2 * values);
  ReserveBytes(scales_, 2 * values / 32 * sizeof(float));
  ReserveBytes(sums_, 2 * values / 16 * sizeof(int16_t));
  return TakeError();
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> CudaBackend::Allocate(size_t bytes) {
  Ready();
  auto buffer = CudaBuffer::Allocate(cuda_, bytes);
  if (!buffer.ok()) return Prefixed(buffer.status(), device_);
  return *std::move(buffer);
}

absl::StatusOr<Weight> CudaBackend::Prepare(const TensorView& tensor) {
  const kernels::QuantTraits& traits = kernels::TraitsOf(tensor.type);
  if (!cuda_.has_matmul(tensor.type)) {
    return Unimplemented("{}: weights of type {} have no kernel", tensor.name,
                         traits.name != nullptr ? traits.name : "unknown");
  }
  Ready();
  if (uploader_ == nullptr) {
    ASSIGN_OR_RETURN(uploader_, CudaUploader::Create(cuda_));
  }
  const int64_t cols = tensor.ne[0], from_bytes = kernels::RowBytes(tensor.type, cols);
  const int64_t to_bytes = kernels::DeviceRowBytes(tensor.type, cols);
  const int64_t rows = static_cast<int64_t>(tensor.bytes) / from_bytes;
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> storage,
                   Allocate(static_cast<size_t>(rows * to_bytes)));
  const auto* data = reinterpret_cast<const uint8_t*>(tensor.data);
  absl::Status status;
  if (from_bytes == to_bytes && traits.block_size == 1) {  // bytes as they are, in whatever pieces
    status = uploader_->Upload(storage->data(), rows * from_bytes, 1,
                               [&](void* host, int64_t begin, int64_t end) {
                                 std::memcpy(host, data + begin, static_cast<size_t>(end - begin));
                               });
  } else if (static_cast<size_t>(to_bytes) > CudaUploader::kPartBytes) {
    status = Unimplemented("a row has {} bytes, at most {} can be uploaded", to_bytes,
                           CudaUploader::kPartBytes);
  } else {
    status = uploader_->Upload(storage->data(), rows, static_cast<size_t>(to_bytes),
                               [&](void* host, int64_t begin, int64_t end) {
                                 for (int64_t r = begin; r < end; ++r) {
                                   kernels::LayOutRow(
                                       tensor.type, cols, data + r * from_bytes,
                                       static_cast<uint8_t*>(host) + (r - begin) * to_bytes);
                                 }
                               });
  }
  if (!status.ok()) return Prefixed(status, tensor.name);
  Weight weight{.type = tensor.type, .ne = tensor.ne, .data = storage->data(), .storage = nullptr};
  weight.storage = std::move(storage);
  return weight;
}

void* CudaBackend::ReserveBytes(Scratch& scratch, size_t bytes) {
  if (scratch.buffer != nullptr && scratch.buffer->bytes() >= bytes) return scratch.buffer->data();
  if (!MayTouchHost()) return nullptr;
  ++moves_;
  if (scratch.buffer != nullptr) {
    NoteCuda(cuda_.wait(stream_), "while computing");  // queued work still uses it
    scratch.buffer.reset();
  }
  auto buffer = CudaBuffer::Allocate(cuda_, (bytes + 255) / 256 * 256);
  if (!buffer.ok()) {
    Note(buffer.status());
    return nullptr;
  }
  scratch.buffer = *std::move(buffer);
  return scratch.buffer->data();
}

std::shared_ptr<DeviceBuffer> CudaBackend::Borrow(size_t bytes) {
  auto buffer = pool_.Get(bytes);
  if (!buffer.ok()) {
    Note(buffer.status());
    return nullptr;
  }
  if (recording_ != nullptr) recording_->Keep(*buffer);
  return *std::move(buffer);
}
std::shared_ptr<DeviceBuffer> CudaBackend::Lend(const void* host, size_t bytes) {
  auto buffer = MayTouchHost() ? Borrow(bytes) : nullptr;
  if (buffer != nullptr) Upload(buffer->data(), host, bytes);
  return buffer;
}
void CudaBackend::Upload(void* to, const void* host, size_t bytes) {
  Note(arrivals_.Send(host, bytes, stream_, [&](const void* pinned) {
    return cuda_.upload(to, pinned, bytes, stream_);
  }));
}

const float* CudaBackend::ConstantsOf(std::span<const float> host) {
  const std::vector<float> key(host.begin(), host.end());
  const auto found = constants_.find(key);
  if (found != constants_.end()) return static_cast<const float*>(found->second->data());
  if (!MayTouchHost()) return nullptr;
  auto buffer = CudaBuffer::Allocate(cuda_, host.size_bytes());
  if (!buffer.ok()) {
    Note(buffer.status());
    return nullptr;
  }
  Upload((*buffer)->data(), host.data(), host.size_bytes());
  const auto* data = static_cast<const float*>((*buffer)->data());
  constants_.emplace(key, *std::move(buffer));
  return data;
}

void CudaBackend::ToHost(Activations from, float* to) {
  if (Ready()) NoteCuda(cuda_.download_rows(MatrixOf(from), to, stream_), "download");
  if (status_.ok()) NoteCuda(cuda_.wait(stream_), "while computing");
  if (!status_.ok()) std::fill_n(to, int64_t{from.rows} * from.cols, 0.0f);
}
void CudaBackend::FromHost(const float* from, Activations to) {
  if (!Ready()) return;
  const size_t bytes = sizeof(float) * static_cast<size_t>(to.rows) * static_cast<size_t>(to.cols);
  Note(arrivals_.Send(from, bytes, stream_, [&](const void* pinned) {
    return cuda_.upload_rows(MatrixOf(to), static_cast<const float*>(pinned), stream_);
  }));
}
std::unique_ptr<HostCopy> CudaBackend::StartToHost(Activations from) {
  if (!Ready()) return nullptr;
  if (departures_ == nullptr) {
    auto departures = CudaDepartures::Create(cuda_);
    Note(departures.status());
    if (!departures.ok()) return nullptr;
    departures_ = *std::move(departures);
  }
  auto copy = departures_->Start(MatrixOf(from), stream_);
  Note(copy.status());
  return copy.ok() ? *std::move(copy) : nullptr;
}
void CudaBackend::Copy(Activations from, Activations to) {
  if (Ready()) cuda_.copy(MatrixOf(from), MatrixOf(to), stream_);
}

}  // namespace baton::engine
