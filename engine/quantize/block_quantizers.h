// One function a type, for the table in row_quantizer.cc.
#pragma once

#include "kernels/block_layouts.h"

namespace baton::engine {

void QuantizeBlock(const float* values, kernels::BlockQ4_0* block);
void QuantizeBlock(const float* values, kernels::BlockQ4_1* block);
void QuantizeBlock(const float* values, kernels::BlockQ5_0* block);
void QuantizeBlock(const float* values, kernels::BlockQ5_1* block);
void QuantizeBlock(const float* values, kernels::BlockQ8_0* block);
void QuantizeBlock(const float* values, kernels::BlockIQ4_NL* block);
void QuantizeBlock(const float* values, kernels::BlockQ4_K* block);
void QuantizeBlock(const float* values, kernels::BlockQ5_K* block);
void QuantizeBlock(const float* values, kernels::BlockQ6_K* block);

}  // namespace baton::engine
