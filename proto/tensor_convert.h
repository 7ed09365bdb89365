// Hidden states on the wire: cut into pieces below the message limit, put together again, every
// claim checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "baton/v1/tensor.pb.h"
#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"
#include "proto/worker_client.h"

namespace baton::wire {

// F32 is exact. The others round, in one way on every machine: F16 and BF16 to nearest even, Q8_0
// to 8 bits with a scale for each 32 values of a row.
v1::WireType ToProto(WireType type);
absl::StatusOr<WireType> FromProto(v1::WireType type);
std::string_view WireTypeName(WireType type);  // "f32"
absl::StatusOr<WireType> ParseWireType(std::string_view name);

// InvalidArgument where rows of `cols` values can't be written in `type`.
absl::Status CheckWireType(WireType type, int32_t cols);
uint64_t WireBytes(WireType type, int32_t rows, int32_t cols);

// The piece that starts at `offset` of the wire's bytes, of at most `max_bytes` of data (at least a
// block). `offset` is 0 or the end of the piece before.
void CutPiece(const engine::HiddenStates& hidden, WireType type, uint64_t offset, size_t max_bytes,
              v1::HiddenStates* piece);

// Puts the pieces of one [rows, cols] together.
class HiddenStatesAssembler {
 public:
  HiddenStatesAssembler() = default;
  // The size that the receiver itself expects; a piece that claims another is refused.
  HiddenStatesAssembler(int32_t rows, int32_t cols);

  // Pieces come in order. InvalidArgument for wrong shapes, sizes or offsets, and for values that
  // are not finite.
  absl::Status Add(const v1::HiddenStates& piece);
  bool complete() const { return filled_ == hidden_.values.size(); }
  engine::HiddenStates Take() { return std::move(hidden_); }

 private:
  engine::HiddenStates hidden_;
  size_t filled_ = 0;  // values
};

}  // namespace baton::wire
