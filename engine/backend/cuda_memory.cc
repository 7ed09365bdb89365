#include "engine/backend/cuda_memory.h"

#include <bit>

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
