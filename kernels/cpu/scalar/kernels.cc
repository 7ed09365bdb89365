// The reference: every type and operation in plain C++, as ARITHMETIC.md says it.
#include "kernels/cpu/scalar/lanes.h"
// The order matters: what follows is written over Lanes.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/fill_matmul.h"
#include "kernels/cpu/float_matmul.h"
#include "kernels/cpu/float_ops.h"
#include "kernels/kernel_set.h"
#include "kernels/unpack.h"

namespace baton::kernels {
namespace {

// t of one block of 32 and one row of activations: what the block adds to the output, but for their
// scale.
template <class Block>
float Block32Term(const Block& b, const int8_t* q, const int8_t* values, const int16_t* sums) {
  int32_t s = 0;
  for (int i = 0; i < 32; ++i) s += q[i] * values[i];
  if constexpr (HasMin<Block>) {
    const float min = Min(b) * static_cast<float>(sums[0] + sums[1]);
    return Fma(Scale(b), static_cast<float>(s), min);
  } else {
    return Scale(b) * static_cast<float>(s);
  }
}

template <class Block>
float SuperBlockTerm(const Block& b, const int8_t* q, const int8_t* values, const int16_t* sums) {
  int32_t total = 0, mins = 0;
  for (int j = 0; j < 16; ++j) {
    int32_t s = 0;
    for (int i = 0; i < 16; ++i) s += q[j * 16 + i] * values[j * 16 + i];
    total += SubScale(b, j) * s;
    if constexpr (HasMin<Block>) mins += SubMin(b, j) * sums[j];
  }
  if constexpr (HasMin<Block>) {
    return Fma(Scale(b), static_cast<float>(total), -(Min(b) * static_cast<float>(mins)));
  } else {
    return Scale(b) * static_cast<float>(total);
  }
}

template <class Block>
void IntegerMatMul(const MatMulArgs& a) {
  constexpr int kBlock = kValues<Block>;
  const int32_t blocks = a.cols / kBlock;
  auto* acc = static_cast<float*>(a.scratch);
  if (a.rows > static_cast<int64_t>(kScratchBytes / sizeof(float))) __builtin_trap();
  for (int32_t n = a.begin; n < a.end; ++n) {
    const auto* row = reinterpret_cast<const Block*>(a.weight + n * a.weight_row_bytes);
    for (int32_t r = 0; r < a.rows; ++r) acc[r] = 0;
    for (int32_t b = 0; b < blocks; ++b) {
      int8_t q[kBlock];
      for (int i = 0; i < kBlock; ++i) q[i] = static_cast<int8_t>(Integer(row[b], i));
      for (int32_t r = 0; r < a.rows; ++r) {
        const int64_t x = XRow(a, r);
        const int8_t* values = a.rounded.values + x * a.rounded.stride + b * kBlock;
        const int16_t* sums = a.rounded.sums + x * (a.cols / 16) + b * (kBlock / 16);
        float term;
        if constexpr (kBlock == 32) {
          term = Block32Term(row[b], q, values, sums);
        } else {
          term = SuperBlockTerm(row[b], q, values, sums);
        }
        acc[r] = Fma(a.rounded.scales[x * blocks + b], term, acc[r]);
      }
    }
    const int32_t rows = a.fine ? a.rows / 2 : a.rows;
    for (int32_t r = 0; r < rows; ++r) {
      const float sum = a.fine ? acc[2 * r] + acc[2 * r + 1] : acc[r];
      OutRow(a, r)[n] = a.bias != nullptr ? sum + a.bias[n] : sum;
    }
  }
}

template <class Block>
void UnpackRow(const void* blocks, int32_t cols, float* out) {
  constexpr int kBlock = kValues<Block>;
  const auto* b = static_cast<const Block*>(blocks);
  for (int32_t i = 0; i < cols; ++i) out[i] = Unpack(b[i / kBlock], i % kBlock);
}

int64_t MultiplyRegisters(int64_t rounds) {
  int8_t weight = 1, value = 2;
  int32_t sum = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+r"(weight), "+r"(value));  // else the loop is done beforehand
    sum += weight * value;
  }
  asm volatile("" : "+r"(sum));
  return rounds * 2;
}

}  // namespace

void FillScalar(KernelSet& set) {
  set.name = "scalar";
  FillFloatOps(set);
  FillAttention(set);
  FillFloatMatMul(set);
  FillIntegerMatMuls(set, []<typename Block>() { return IntegerMatMul<Block>; });
#define BATON_FILL_UNPACK(Block) set.unpack_row[static_cast<int>(Block::kType)] = UnpackRow<Block>;
  BATON_FOR_EACH_BLOCK(BATON_FILL_UNPACK)
#undef BATON_FILL_UNPACK
  set.multiply_registers = MultiplyRegisters;
}

}  // namespace baton::kernels
