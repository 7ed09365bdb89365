// The table of integer products, for a set that makes all of them in one file.
#pragma once

#include "kernels/block_layouts.h"
#include "kernels/kernel_set.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

// function_of.operator()<BlockQ4_0>() is the set's function for that type, and so on.
template <typename FunctionOf>
void FillIntegerMatMuls(KernelSet& set, FunctionOf function_of) {
#define BATON_FILL_MATMUL(Block) \
  set.matmul[static_cast<int>(Block::kType)] = function_of.template operator()<Block>();
  BATON_FOR_EACH_BLOCK32(BATON_FILL_MATMUL)
  BATON_FOR_EACH_SUPER_BLOCK(BATON_FILL_MATMUL)
#undef BATON_FILL_MATMUL
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
