// Memory of a CUDA device, by owners that give it back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/status.h"
#include "kernels/cuda/cuda_api.h"

namespace baton::engine {

// ResourceExhausted or Internal: what CUDA said where.
absl::Status CudaStatus(const kernels::CudaApi& cuda, kernels::CudaError error,
                        std::string_view where);

// One allocation.
class CudaBuffer final : public DeviceBuffer {
 public:
  static absl::StatusOr<std::unique_ptr<CudaBuffer>> Allocate(const kernels::CudaApi& cuda,
                                                              size_t bytes);
  ~CudaBuffer() override { cuda_.release(data_); }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  CudaBuffer(const kernels::CudaApi& cuda, void* data, size_t bytes)
      : cuda_(cuda), data_(data), bytes_(bytes) {}

  const kernels::CudaApi& cuda_;
  void* data_;
  size_t bytes_;
};

// Small buffers that live for a micro-batch and come back: nothing is allocated once the first
// batches have passed. What is queued on the stream may still use a buffer that came back; the next
// owner's work is queued behind it. One thread uses it.
class CudaPool {
 public:
  explicit CudaPool(const kernels::CudaApi& cuda)
      : cuda_(cuda), free_(std::make_shared<FreeLists>()) {}

  absl::StatusOr<std::shared_ptr<DeviceBuffer>> Get(size_t bytes);

 private:
  using FreeLists = std::map<size_t, std::vector<std::unique_ptr<CudaBuffer>>>;  // by size

  const kernels::CudaApi& cuda_;
  std::shared_ptr<FreeLists> free_;  // buffers that come back late find it
};

// Host memory that a device copies from or to by itself, and the event that says when it has.
class CudaPinned {
 public:
  explicit CudaPinned(const kernels::CudaApi& cuda) : cuda_(cuda) {}
  ~CudaPinned();
  CudaPinned(const CudaPinned&) = delete;
  CudaPinned& operator=(const CudaPinned&) = delete;

  // At least so much, when the last copy is done; what was there is lost.
  absl::StatusOr<void*> Reserve(size_t bytes);
  // A copy was queued on the stream.
  absl::Status NoteCopy(kernels::CudaStream stream);
  absl::Status Wait();
  const void* data() const { return data_; }

 private:
  const kernels::CudaApi& cuda_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  kernels::CudaEvent copied_ = nullptr;  // made with the first memory
};

// Copies to a device that are queued without waiting for those before them. One thread.
class CudaArrivals {
 public:
  explicit CudaArrivals(const kernels::CudaApi& cuda);

  // queue(host) queues a copy of what stands there now; `from` may be reused at once.
  template <class Queue>
  absl::Status Send(const void* from, size_t bytes, kernels::CudaStream stream,
                    const Queue& queue) {
    CudaPinned& pinned = *ring_[turn_++ % ring_.size()];
    ASSIGN_OR_RETURN(void* host, pinned.Reserve(bytes));
    std::memcpy(host, from, bytes);
    RETURN_IF_ERROR(CudaStatus(cuda_, queue(host), "cuda: a copy to the device"));
    return pinned.NoteCopy(stream);
  }

 private:
  const kernels::CudaApi& cuda_;
  std::vector<std::unique_ptr<CudaPinned>> ring_;  // the copies of two micro-batches at least
  size_t turn_ = 0;
};

// Copies that leave a device while it computes on: each takes activations aside on the device and
// brings them to the host on a stream of its own. One thread.
class CudaDepartures {
 public:
  static absl::StatusOr<std::unique_ptr<CudaDepartures>> Create(const kernels::CudaApi& cuda);
  ~CudaDepartures();
  CudaDepartures(const CudaDepartures&) = delete;
  CudaDepartures& operator=(const CudaDepartures&) = delete;

  absl::StatusOr<std::unique_ptr<HostCopy>> Start(kernels::CudaMatrix from,
                                                  kernels::CudaStream computing);

 private:
  class Copy;
  struct Place {  // of one copy
    explicit Place(const kernels::CudaApi& cuda) : host(cuda) {}
    std::unique_ptr<CudaBuffer> device;
    CudaPinned host;
  };
  explicit CudaDepartures(const kernels::CudaApi& cuda) : cuda_(cuda) {}
  absl::Status Queue(kernels::CudaMatrix from, kernels::CudaStream computing, Place& place);

  const kernels::CudaApi& cuda_;
  kernels::CudaStream stream_ = nullptr;
  kernels::CudaEvent computed_ = nullptr;
  std::vector<std::unique_ptr<Place>> free_;
};

// Copies host memory to the device through pinned memory, in two parts that take turns: while one
// is on its way the other is filled.
class CudaUploader {
 public:
  static absl::StatusOr<std::unique_ptr<CudaUploader>> Create(const kernels::CudaApi& cuda);
  ~CudaUploader();
  CudaUploader(const CudaUploader&) = delete;
  CudaUploader& operator=(const CudaUploader&) = delete;

  static constexpr size_t kPartBytes = 8 << 20;

  // Calls fill(host, begin, end) for runs of the units [0, count), each of `unit_bytes`, and copies
  // what it filled to the device. Returns when all is there. A unit is at most kPartBytes.
  template <class Fill>
  absl::Status Upload(void* to, int64_t count, size_t unit_bytes, const Fill& fill) {
    const auto units = static_cast<int64_t>(kPartBytes / unit_bytes);
    int turn = 0;
    for (int64_t begin = 0; begin < count; begin += units, turn ^= 1) {
      const int64_t end = std::min(count, begin + units);
      RETURN_IF_ERROR(Wait(turn));
      fill(parts_[turn].host, begin, end);
      RETURN_IF_ERROR(Send(turn, static_cast<std::byte*>(to) + begin * unit_bytes,
                           static_cast<size_t>(end - begin) * unit_bytes));
    }
    RETURN_IF_ERROR(Wait(0));
    return Wait(1);
  }

 private:
  explicit CudaUploader(const kernels::CudaApi& cuda) : cuda_(cuda) {}
  absl::Status Wait(int part);
  absl::Status Send(int part, void* to, size_t bytes);

  struct Part {
    void* host = nullptr;  // pinned
    kernels::CudaStream stream = nullptr;
    bool made = false;
  };
  const kernels::CudaApi& cuda_;
  Part parts_[2];
};

}  // namespace baton::engine
