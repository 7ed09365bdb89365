// Integer products on AVX2 and above: few rows by rows, where the type has such a kernel, as memory
// is the bound; more by panels, as the set's panel_ops.h says, which comes first.
#pragma once

#include "kernels/cpu/avx2/row_matmul.h"
#include "kernels/cpu/panel.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class Block>
void IntegerMatMul(const MatMulArgs& a) {
  if constexpr (HasRowKernel<Block>) {
    if (a.rows <= kMostRowsAbreast) return RowMatMul<Block>(a);
  }
  PanelMatMul<Block>(a);
}
template <class Block>
void FillIntegerMatMul(KernelSet& set) {
  set.matmul[static_cast<int>(Block::kType)] = IntegerMatMul<Block>;
}

// One file a family, so that they compile side by side.
void FillBlock32MatMul(KernelSet& set);
void FillSuperBlockMatMul(KernelSet& set);
void FillCodeBookMatMul(KernelSet& set);

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
