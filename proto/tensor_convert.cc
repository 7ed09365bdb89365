#include "proto/tensor_convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "engine/base/quote.h"

namespace baton::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr int kQ8BlockValues = 32;
constexpr int kQ8BlockBytes = 2 + kQ8BlockValues;  // an F16 scale and 32 int8

// Rounds the lowest `drop` bits of a magnitude away, ties to even.
constexpr uint32_t RoundShift(uint32_t value, int drop) {
  const uint32_t half = 1u << (drop - 1);
  const uint32_t rest = value & ((1u << drop) - 1);
  const uint32_t kept = value >> drop;
  return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
}

// Finite values beyond 65504 become the largest F16: an infinity would be refused by the receiver.
uint16_t F16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const int exponent = static_cast<int>((bits >> 23) & 0xff) - 127;
  if (exponent == 128) return sign | ((bits & 0x7fffff) != 0 ? 0x7e00 : 0x7c00);
  if (exponent < -25) return sign;
  const uint32_t mantissa = (bits & 0x7fffff) | 0x800000;
  if (exponent < -14)
    return sign | static_cast<uint16_t>(RoundShift(mantissa, 13 + (-14 - exponent)));
  const uint32_t magnitude =
      (static_cast<uint32_t>(exponent + 14) << 10) + RoundShift(mantissa, 13);
  return sign | static_cast<uint16_t>(std::min<uint32_t>(magnitude, 0x7bff));
}

float F32FromF16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 0xffu << 23 : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | (mantissa << 13));
}

uint16_t BF16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (magnitude >= 0x7f800000)
    return static_cast<uint16_t>(bits >> 16) | (magnitude > 0x7f800000 ? 0x40 : 0);
  return sign | static_cast<uint16_t>(std::min<uint32_t>(RoundShift(magnitude, 16), 0x7f7f));
}

float F32FromBF16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// One format: whole blocks of values to and from bytes.
struct Codec {
  const char* name;
  int block_values;
  int block_bytes;
  void (*encode)(const float* values, size_t blocks, char* bytes);
  void (*decode)(const char* bytes, size_t blocks, float* values);
};

// Not memcpy: of no values the pointers may be null.
void EncodeF32(const float* values, size_t blocks, char* bytes) {
  std::copy_n(reinterpret_cast<const char*>(values), blocks * sizeof(float), bytes);
}
void DecodeF32(const char* bytes, size_t blocks, float* values) {
  std::copy_n(bytes, blocks * sizeof(float), reinterpret_cast<char*>(values));
}

template <uint16_t (*kConvert)(float)>
void EncodeHalf(const float* values, size_t blocks, char* bytes) {
  for (size_t i = 0; i < blocks; ++i) {
    const uint16_t half = kConvert(values[i]);
    std::memcpy(bytes + i * sizeof(half), &half, sizeof(half));
  }
}

template <float (*kConvert)(uint16_t)>
void DecodeHalf(const char* bytes, size_t blocks, float* values) {
  for (size_t i = 0; i < blocks; ++i) {
    uint16_t half;
    std::memcpy(&half, bytes + i * sizeof(half), sizeof(half));
    values[i] = kConvert(half);
  }
}

void EncodeQ8(const float* values, size_t blocks, char* bytes) {
  for (size_t b = 0; b < blocks; ++b, values += kQ8BlockValues, bytes += kQ8BlockBytes) {
    float largest = 0;
    for (int i = 0; i < kQ8BlockValues; ++i) largest = std::max(largest, std::fabs(values[i]));
    const uint16_t half = F16FromF32(largest / 127.0f);
    const float scale = F32FromF16(half);
    std::memcpy(bytes, &half, sizeof(half));
    for (int i = 0; i < kQ8BlockValues; ++i) {
      const float steps = scale > 0 ? std::round(values[i] / scale) : 0.0f;
      bytes[2 + i] = static_cast<char>(static_cast<int8_t>(std::clamp(steps, -127.0f, 127.0f)));
    }
  }
}

void DecodeQ8(const char* bytes, size_t blocks, float* values) {
  for (size_t b = 0; b < blocks; ++b, values += kQ8BlockValues, bytes += kQ8BlockBytes) {
    uint16_t half;
    std::memcpy(&half, bytes, sizeof(half));
    const float scale = F32FromF16(half);
    for (int i = 0; i < kQ8BlockValues; ++i)
      values[i] = scale * static_cast<float>(static_cast<int8_t>(bytes[2 + i]));
  }
}

// Indexed by WireType, whose numbers are those of the protocol.
constexpr std::array<Codec, 4> kCodecs = {{
    {"f32", 1, 4, EncodeF32, DecodeF32},
    {"f16", 1, 2, EncodeHalf<F16FromF32>, DecodeHalf<F32FromF16>},
    {"bf16", 1, 2, EncodeHalf<BF16FromF32>, DecodeHalf<F32FromBF16>},
    {"q8_0", kQ8BlockValues, kQ8BlockBytes, EncodeQ8, DecodeQ8},
}};

const Codec& CodecOf(WireType type) { return kCodecs[static_cast<size_t>(type)]; }

bool AllFinite(std::span<const float> values) {
  bool finite = true;
  for (const float value : values)
    finite &= (std::bit_cast<uint32_t>(value) & 0x7f800000) != 0x7f800000;
  return finite;
}

}  // namespace

v1::WireType ToProto(WireType type) { return static_cast<v1::WireType>(type); }

absl::StatusOr<WireType> FromProto(v1::WireType type) {
  const int number = type;
  if (number < 0 || number >= static_cast<int>(kCodecs.size())) {
    return InvalidArgument("wire type: got {}, expected 0 to {}", number, kCodecs.size() - 1);
  }
  return static_cast<WireType>(number);
}

std::string_view WireTypeName(WireType type) { return CodecOf(type).name; }

absl::StatusOr<WireType> ParseWireType(std::string_view name) {
  for (size_t i = 0; i < kCodecs.size(); ++i) {
    if (name == kCodecs[i].name) return static_cast<WireType>(i);
  }
  return InvalidArgument("wire type: got \"{}\", expected f32, f16, bf16 or q8_0",
                         engine::Named(name));
}

absl::Status CheckWireType(WireType type, int32_t cols) {
  const int block = CodecOf(type).block_values;
  if (cols % block == 0) return absl::OkStatus();
  return InvalidArgument("wire type {}: hidden size {} is not a multiple of {}", WireTypeName(type),
                         cols, block);
}

uint64_t WireBytes(WireType type, int32_t rows, int32_t cols) {
  const Codec& codec = CodecOf(type);
  return static_cast<uint64_t>(rows) * static_cast<uint64_t>(cols) / codec.block_values *
         codec.block_bytes;
}

void CutPiece(const engine::HiddenStates& hidden, WireType type, uint64_t offset, size_t max_bytes,
              v1::HiddenStates* piece) {
  const Codec& codec = CodecOf(type);
  const uint64_t first_block = offset / codec.block_bytes;
  const uint64_t total_blocks = hidden.values.size() / codec.block_values;
  const uint64_t fitting = std::max<uint64_t>(1, max_bytes / codec.block_bytes);
  const uint64_t blocks = std::min(total_blocks - first_block, fitting);
  piece->set_rows(hidden.rows);
  piece->set_cols(hidden.cols);
  piece->set_type(ToProto(type));
  piece->set_offset(offset);
  std::string& data = *piece->mutable_data();
  data.resize(blocks * codec.block_bytes);
  codec.encode(hidden.values.data() + first_block * codec.block_values, blocks, data.data());
}

HiddenStatesAssembler::HiddenStatesAssembler(int32_t rows, int32_t cols)
    : hidden_{rows, cols,
              std::vector<float>(static_cast<size_t>(rows) * static_cast<size_t>(cols))} {}

absl::Status HiddenStatesAssembler::Add(const v1::HiddenStates& piece) {
  if (piece.rows() != hidden_.rows || piece.cols() != hidden_.cols) {
    return InvalidArgument("hidden states: shape [{}, {}], expected [{}, {}]", piece.rows(),
                           piece.cols(), hidden_.rows, hidden_.cols);
  }
  ASSIGN_OR_RETURN(const WireType type, FromProto(piece.type()));
  RETURN_IF_ERROR(CheckWireType(type, hidden_.cols));
  const Codec& codec = CodecOf(type);
  const uint64_t expected_offset = filled_ / codec.block_values * codec.block_bytes;
  if (filled_ % codec.block_values != 0 || piece.offset() != expected_offset) {
    return InvalidArgument("hidden states: piece at byte {}, expected {}", piece.offset(),
                           expected_offset);
  }
  const std::string& data = piece.data();
  const size_t blocks = data.size() / codec.block_bytes;
  const size_t missing = (hidden_.values.size() - filled_) / codec.block_values;
  if (data.empty() || data.size() % codec.block_bytes != 0 || blocks > missing) {
    return InvalidArgument("hidden states: piece of {} bytes, expected a multiple of {} up to {}",
                           data.size(), codec.block_bytes, missing * codec.block_bytes);
  }
  const std::span<float> values(hidden_.values.data() + filled_, blocks * codec.block_values);
  codec.decode(data.data(), blocks, values.data());
  if (!AllFinite(values)) {
    return InvalidArgument("hidden states: a value from number {} on is not finite", filled_);
  }
  filled_ += values.size();
  return absl::OkStatus();
}

}  // namespace baton::wire
