#include "engine/quantize/row_quantizer.h"

#include <cstring>

#include "engine/quantize/block_quantizers.h"
#include "kernels/half.h"

namespace baton::engine {
namespace {

using kernels::QuantType;

uint16_t FloatToBfloat16(float value) {
  const uint32_t bits = kernels::BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 64);  // NaN
  return static_cast<uint16_t>((bits + (0x7fff + (bits >> 16 & 1))) >> 16);
}

template <uint16_t (*kConvert)(float)>
void ToSixteenBits(const float* values, int64_t count, void* out) {
  auto* bytes = static_cast<char*>(out);
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = kConvert(values[i]);
    std::memcpy(bytes + 2 * i, &bits, sizeof(bits));
  }
}

template <float (*kConvert)(uint16_t)>
void FromSixteenBits(const void* row, int64_t count, float* values) {
  const auto* bytes = static_cast<const char*>(row);
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof(bits));
    values[i] = kConvert(bits);
  }
}

void CopyTo(const float* values, int64_t count, void* out) {
  std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
}
void CopyFrom(const void* row, int64_t count, float* values) {
  std::memcpy(values, row, static_cast<size_t>(count) * sizeof(float));
}

template <typename Block>
void ToBlocks(const float* values, int64_t count, void* out) {
  constexpr int64_t kValues = kernels::TraitsOf(Block::kType).block_size;
  auto* block = static_cast<Block*>(out);
  for (int64_t i = 0; i < count; i += kValues) QuantizeBlock(values + i, block++);
}

struct QuantizerRow {
  QuantType type;
  RowQuantizer quantize;
};
constexpr QuantizerRow kQuantizers[] = {
    {QuantType::kF32, CopyTo},
    {QuantType::kF16, ToSixteenBits<kernels::FloatToHalf>},
    {QuantType::kBF16, ToSixteenBits<FloatToBfloat16>},
    {QuantType::kQ4_0, ToBlocks<kernels::BlockQ4_0>},
    {QuantType::kQ4_1, ToBlocks<kernels::BlockQ4_1>},
    {QuantType::kQ5_0, ToBlocks<kernels::BlockQ5_0>},
    {QuantType::kQ5_1, ToBlocks<kernels::BlockQ5_1>},
    {QuantType::kQ8_0, ToBlocks<kernels::BlockQ8_0>},
    {QuantType::kIQ4_NL, ToBlocks<kernels::BlockIQ4_NL>},
    {QuantType::kQ4_K, ToBlocks<kernels::BlockQ4_K>},
    {QuantType::kQ5_K, ToBlocks<kernels::BlockQ5_K>},
    {QuantType::kQ6_K, ToBlocks<kernels::BlockQ6_K>},
};

}  // namespace

RowQuantizer RowQuantizerOf(QuantType type) {
  for (const QuantizerRow& row : kQuantizers) {
    if (row.type == type) return row.quantize;
  }
  return nullptr;
}

RowReader RowReaderOf(QuantType type) {
  if (type == QuantType::kF32) return CopyFrom;
  if (type == QuantType::kF16) return FromSixteenBits<kernels::HalfToFloat>;
  if (type == QuantType::kBF16) return FromSixteenBits<kernels::Bfloat16ToFloat>;
  return nullptr;
}

}  // namespace baton::engine
