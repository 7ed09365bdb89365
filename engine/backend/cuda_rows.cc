// Operations over rows of the CUDA backend. Those that a product or a norm often follows wait for
// it: one kernel then does both, for a decode step is made of kernels that are shorter than their
// start.
#include <utility>

#include "engine/backend/cuda_backend.h"
#include "engine/backend/unary_op.h"
#include "kernels/cuda/device_layout.h"

namespace baton::engine {
namespace {

using kernels::CudaActivateArgs;
using kernels::CudaAddArgs;
using kernels::CudaNormArgs;
using kernels::CudaRopeArgs;
using kernels::CudaRounding;
using kernels::UnaryOp;

bool TurnAlike(const CudaRopeArgs& a, const CudaRopeArgs& b) {
  return a.halves == b.halves && a.cos_sin == b.cos_sin && a.half == b.half &&
         a.head_dim == b.head_dim && a.offset == b.offset && a.x.rows == b.x.rows;
}

}  // namespace

void CudaBackend::Embed(const Weight& table, std::span<const TokenId> ids, Activations out) {
  static_assert(sizeof(TokenId) == sizeof(int32_t));
  if (!Ready() || ids.empty()) return;
  const auto device_ids = Lend(ids.data(), ids.size_bytes());
  if (device_ids == nullptr) return;
  cuda_.embed(table.type, static_cast<const uint8_t*>(table.data),
              kernels::DeviceRowBytes(table.type, table.ne[0]),
              static_cast<const int32_t*>(device_ids->data()), MatrixOf(out), stream_);
}

// ---- operations that wait -----------------------------------------------------------------------

void CudaBackend::Norm(NormKind kind, float eps, Activations x, const Weight* weight,
                       const Weight* bias, Activations out) {
  if (!ReadyToTake()) return;
  CudaNormArgs args = {.layer = kind == NormKind::kLayer,
                       .eps = eps,
                       .x = MatrixOf(x),
                       .weight = FloatsOf(weight),
                       .bias = FloatsOf(bias),
                       .out = MatrixOf(out),
                       .sum = {}};
  if (WaitingMakes(x) && std::holds_alternative<CudaAddArgs>(waiting_)) {
    args.sum = std::get<CudaAddArgs>(std::exchange(waiting_, {}));
  }
  QueueWaiting();
  waiting_ = args;
}

void CudaBackend::Add(Activations a, Activations b, float scale, Activations out) {
  if (!Ready()) return;
  waiting_ = CudaAddArgs{MatrixOf(a), MatrixOf(b), scale, MatrixOf(out)};
}

void CudaBackend::Activate(const ActivationParams& params, Activations x) {
  if (!Ready()) return;
  waiting_ =
      CudaActivateArgs{.op = OpOf(params.kind), .gate = MatrixOf(x), .up = {}, .out = MatrixOf(x)};
}

void CudaBackend::GatedActivation(const ActivationParams& params, Activations gate, Activations up,
                                  Activations out) {
  if (!Ready()) return;
  const bool clamped = params.kind == ActivationKind::kSwigluClamped;
  waiting_ = CudaActivateArgs{.op = clamped ? UnaryOp::kGeluQuick : OpOf(params.kind),
                              .clamped = clamped,
                              .limit = params.limit,
                              .gate = MatrixOf(gate),
                              .up = MatrixOf(up),
                              .out = MatrixOf(out)};
}

void CudaBackend::Rope(const RopeTable& table, int32_t head_dim, Activations x) {
  if (!ReadyToTake() || table.cos_sin == nullptr) return;
  const RopeParams& params = *table.params;
  CudaRopeArgs args = {.halves = params.pairs == RopePairs::kHalves,
                       .cos_sin = static_cast<const float*>(table.cos_sin->data()),
                       .half = params.dims / 2,
                       .head_dim = head_dim,
                       .offset = params.offset,
                       .x = MatrixOf(x),
                       .more = {}};
  const auto* first = std::get_if<CudaRopeArgs>(&waiting_);
  if (first != nullptr && TurnAlike(*first, args) && first->more.data == nullptr) {
    args.more = std::exchange(args.x, first->x);
    waiting_ = {};
  }
  QueueWaiting();
  waiting_ = args;
}

bool CudaBackend::WaitingMakes(Activations x) const {
  return std::visit(
      [&](const auto& args) {
        if constexpr (requires { args.out; }) {
          return args.out.data == x.data && args.out.rows == x.rows && args.out.cols == x.cols &&
                 args.out.stride == x.stride;
        } else {
          return false;
        }
      },
      waiting_);
}

void CudaBackend::QueueWaiting(const CudaRounding& rounding) {
  const Waiting waiting = std::exchange(waiting_, {});
  if (const auto* add = std::get_if<CudaAddArgs>(&waiting)) {
    cuda_.add(*add, rounding, stream_);
  } else if (const auto* norm = std::get_if<CudaNormArgs>(&waiting)) {
    cuda_.norm(*norm, rounding, stream_);
  } else if (const auto* activate = std::get_if<CudaActivateArgs>(&waiting)) {
    cuda_.activate(*activate, rounding, stream_);
  } else if (const auto* rope = std::get_if<CudaRopeArgs>(&waiting)) {
    cuda_.rope(*rope, stream_);
  }
}

void CudaBackend::QueueRounding(Activations x, const CudaRounding& rounding) {
  if (WaitingMakes(x)) return QueueWaiting(rounding);
  QueueWaiting();
  cuda_.round(MatrixOf(x), rounding, stream_);
}

// ---- others -------------------------------------------------------------------------------------

void CudaBackend::AddBias(Activations x, const Weight& bias) {
  if (Ready()) cuda_.add_bias(MatrixOf(x), FloatsOf(&bias), stream_);
}
void CudaBackend::Scale(Activations x, float factor) {
  if (Ready()) cuda_.scale(MatrixOf(x), factor, stream_);
}
void CudaBackend::SoftCap(Activations x, float cap) {
  if (Ready()) cuda_.soft_cap(MatrixOf(x), cap, stream_);
}
void CudaBackend::Clamp(Activations x, float limit) {
  if (Ready()) cuda_.clamp(MatrixOf(x), limit, stream_);
}
RopeTable CudaBackend::MakeRopeTable(const RopeParams& params, const BatchLayout& layout) {
  RopeTable table{.params = &params, .cos_sin = nullptr};
  if (!Ready()) return table;
  const auto rows = static_cast<int32_t>(layout.positions.size());
  const int32_t* positions = LayoutOf(layout).positions;
  const float* inv_freq = ConstantsOf(params.inv_freq);
  table.cos_sin = Borrow(sizeof(float) * static_cast<size_t>(rows) * params.dims);
  if (!status_.ok()) return table;
  cuda_.rope_table(positions, rows, inv_freq, params.dims / 2, params.magnitude,
                   static_cast<float*>(table.cos_sin->data()), stream_);
  return table;
}

}  // namespace baton::engine
