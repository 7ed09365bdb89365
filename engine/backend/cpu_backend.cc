#include "engine/backend/cpu_backend.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "engine/backend/unary_op.h"
#include "kernels/exact_math.h"

namespace baton::engine {
namespace {

using kernels::QuantTraits;
using kernels::QuantType;

constexpr size_t kAlignment = 64;

// Keys, values and activations lie in few, large pages, where the system lets who asks have them.
void PreferHugePages(void* data, size_t bytes) {
  constexpr uintptr_t kPage = 4096, kHugePage = 2 << 20;
  if (bytes < 2 * kHugePage) return;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// Anonymous pages: zero, and not resident before they are touched.
class PageBuffer final : public DeviceBuffer {
 public:
  PageBuffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~PageBuffer() override { munmap(data_, bytes_); }
  void* data() override { return data_; }
  size_t bytes() const override { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

}  // namespace

void ScratchBuffer::Free::operator()(void* p) const { std::free(p); }

void* ScratchBuffer::Reserve(size_t bytes) {
  if (bytes > bytes_ || data_ == nullptr) {
    data_.reset();
    bytes_ = (bytes + kAlignment) / kAlignment * kAlignment;
    data_.reset(std::aligned_alloc(kAlignment, bytes_));
    if (data_ == nullptr) throw std::bad_alloc();
    PreferHugePages(data_.get(), bytes_);
  }
  return data_.get();
}

CpuBackend::CpuBackend(const kernels::KernelSet* kernels, int threads)
    : kernels_(kernels),
      pool_(threads),
      name_(fmt::format("cpu ({}, {} thread{})", kernels->name, threads, threads == 1 ? "" : "s")),
      thread_scratch_(threads) {}

// ---- memory and weights -------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<DeviceBuffer>> CpuBackend::Allocate(size_t bytes) {
  const size_t mapped = bytes > 0 ? bytes : 1;
  void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return ResourceExhausted("cpu: {} bytes asked for, the system gives no more ({})", bytes,
                             std::strerror(errno));
  }
  PreferHugePages(data, mapped);
  return std::make_unique<PageBuffer>(data, mapped);
}

std::shared_ptr<DeviceBuffer> CpuBackend::Borrow(size_t bytes) {
  for (const std::shared_ptr<ScratchBuffer>& buffer : lent_) {
    if (buffer.use_count() > 1) continue;
    buffer->Get<std::byte>(bytes);
    return buffer;
  }
  lent_.push_back(std::make_shared<ScratchBuffer>());
  lent_.back()->Get<std::byte>(bytes);
  return lent_.back();
}

absl::StatusOr<Weight> CpuBackend::Prepare(const TensorView& tensor) {
  const QuantTraits& traits = kernels::TraitsOf(tensor.type);
  const auto index = static_cast<size_t>(tensor.type);
  if (kernels_->matmul[index] == nullptr || kernels_->unpack_row[index] == nullptr) {
    return Unimplemented("{}: weights of type {} have no kernel", tensor.name,
                         traits.name != nullptr ? traits.name : "unknown");
  }
  Weight weight{.type = tensor.type, .ne = tensor.ne, .data = tensor.data, .storage = nullptr};
  // Single values are read as such; only a file with an odd alignment needs the copy.
  if (traits.block_size == 1 &&
      reinterpret_cast<uintptr_t>(tensor.data) % traits.block_bytes != 0) {
    ASSIGN_OR_RETURN(std::unique_ptr<DeviceBuffer> copy, Allocate(tensor.bytes));
    std::memcpy(copy->data(), tensor.data, tensor.bytes);
    weight.data = copy->data();
    weight.storage = std::move(copy);
  }
  return weight;
}

void CpuBackend::ToHost(Activations from, float* to) {
  for (int32_t r = 0; r < from.rows; ++r) {
    std::memcpy(to + int64_t{r} * from.cols, from.data + r * from.stride,
                sizeof(float) * from.cols);
  }
}
void CpuBackend::FromHost(const float* from, Activations to) {
  for (int32_t r = 0; r < to.rows; ++r) {
    std::memcpy(to.data + r * to.stride, from + int64_t{r} * to.cols, sizeof(float) * to.cols);
  }
}
void CpuBackend::Copy(Activations from, Activations to) {
  ForRows(from, [&](int32_t r) {
    std::memcpy(to.data + r * to.stride, from.data + r * from.stride, sizeof(float) * from.cols);
  });
}

// ---- row by row ---------------------------------------------------------------------------------

void CpuBackend::Embed(const Weight& table, std::span<const TokenId> ids, Activations out) {
  const auto unpack = kernels_->unpack_row[static_cast<size_t>(table.type)];
  const int64_t row_bytes = kernels::RowBytes(table.type, table.ne[0]);
  ForRows(out, [&](int32_t r) {
    unpack(static_cast<const uint8_t*>(table.data) + ids[r] * row_bytes, out.cols,
           out.data + r * out.stride);
  });
}

void CpuBackend::Norm(NormKind kind, float eps, Activations x, const Weight* weight,
                      const Weight* bias, Activations out) {
  const auto norm = kind == NormKind::kRms ? kernels_->rms_norm : kernels_->layer_norm;
  ForRows(x, [&](int32_t r) {
    norm(x.data + r * x.stride, x.cols, eps, FloatsOf(weight), FloatsOf(bias),
         out.data + r * out.stride);
  });
}

void CpuBackend::Add(Activations a, Activations b, float scale, Activations out) {
  ForRows(a, [&](int32_t r) {
    kernels_->add_scaled(a.data + r * a.stride, b.data + r * b.stride, scale, a.cols,
                         out.data + r * out.stride);
  });
}

void CpuBackend::AddBias(Activations x, const Weight& bias) {
  ForRows(x, [&](int32_t r) {
    float* row = x.data + r * x.stride;
    kernels_->add_scaled(row, FloatsOf(&bias), 1.0f, x.cols, row);
  });
}

void CpuBackend::Scale(Activations x, float factor) {
  ForRows(x, [&](int32_t r) { kernels_->scale(factor, x.cols, x.data + r * x.stride); });
}

void CpuBackend::SoftCap(Activations x, float cap) {
  ForRows(x, [&](int32_t r) { kernels_->soft_cap(cap, x.cols, x.data + r * x.stride); });
}

void CpuBackend::Clamp(Activations x, float limit) {
  ForRows(x, [&](int32_t r) { kernels_->clamp(limit, x.cols, x.data + r * x.stride); });
}

void CpuBackend::Activate(const ActivationParams& params, Activations x) {
  const auto unary = kernels_->unary[static_cast<size_t>(OpOf(params.kind))];
  ForRows(x, [&](int32_t r) { unary(x.cols, x.data + r * x.stride); });
}

void CpuBackend::GatedActivation(const ActivationParams& params, Activations gate, Activations up,
                                 Activations out) {
  ForRows(gate, [&](int32_t r) {
    GateValues(params, gate.data + r * gate.stride, up.data + r * up.stride, gate.cols,
               out.data + r * out.stride);
  });
}

void CpuBackend::GateValues(const ActivationParams& params, const float* gate, const float* up,
                            int32_t n, float* out) const {
  if (params.kind == ActivationKind::kSwigluClamped)
    return kernels_->gated_swiglu_clamped(gate, up, params.limit, n, out);
  kernels_->gated[static_cast<size_t>(OpOf(params.kind))](gate, up, n, out);
}

void CpuBackend::ActivateColumns(const ActivationParams& params, const MatMulTarget* gate,
                                 const MatMulTarget& up, int64_t begin, int64_t end) const {
  const auto columns = static_cast<int32_t>(end - begin);
  for (int32_t r = 0; r < up.out.rows; ++r) {
    float* values = up.out.data + r * up.out.stride + begin;
    if (gate == nullptr) {
      kernels_->unary[static_cast<size_t>(OpOf(params.kind))](columns, values);
    } else {
      GateValues(params, gate->out.data + r * gate->out.stride + begin, values, columns, values);
    }
  }
}

// ---- rotation -----------------------------------------------------------------------------------

RopeTable CpuBackend::MakeRopeTable(const RopeParams& params, const BatchLayout& layout) {
  const auto rows = static_cast<int32_t>(layout.positions.size());
  const int32_t half = params.dims / 2;
  RopeTable table{.params = &params, .cos_sin = Borrow(sizeof(float) * rows * params.dims)};
  auto* data = static_cast<float*>(table.cos_sin->data());
  ForRows({data, rows, params.dims, params.dims}, [&](int32_t r) {
    float* row = data + int64_t{r} * params.dims;
    for (int32_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(layout.positions[r]) * params.inv_freq[i];
      const kernels::SinCosResult s = kernels::SinCos(angle);
      row[i] = static_cast<float>(s.cos * params.magnitude);
      row[half + i] = static_cast<float>(s.sin * params.magnitude);
    }
  });
  return table;
}

void CpuBackend::Rope(const RopeTable& table, int32_t head_dim, Activations x) {
  const RopeParams& params = *table.params;
  const int32_t half = params.dims / 2;
  const auto rotate =
      params.pairs == RopePairs::kHalves ? kernels_->rope_halves : kernels_->rope_interleaved;
  const auto* data = static_cast<const float*>(table.cos_sin->data());
  ForRows(x, [&](int32_t r) {
    const float* cos = data + int64_t{r} * params.dims;
    for (int32_t head = 0; head < x.cols / head_dim; ++head) {
      rotate(cos, cos + half, half, x.data + r * x.stride + head * head_dim + params.offset);
    }
  });
}

}  // namespace baton::engine
