// Integer products on AVX2: few rows by rows, where the type has such a kernel; more by panels. One
// file a family, so that they compile side by side.
#pragma once

#include "kernels/cpu/avx2/panel_ops.h"
#include "kernels/cpu/avx2/row_matmul.h"
// The order matters: panels are multiplied by panel_ops.h.
#include "kernels/cpu/panel.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class Block>
void IntegerMatMul(const MatMulArgs& a) {
  if constexpr (requires { sizeof(Terms<Block>); }) {
    if (a.rows <= kMostRowsAbreast) return RowMatMul<Block>(a);
  }
  PanelMatMul<Block>(a);
}
template <class Block>
void FillIntegerMatMul(KernelSet& set) {
  set.matmul[static_cast<int>(Block::kType)] = IntegerMatMul<Block>;
}

void FillBlock32MatMul(KernelSet& set);
void FillSuperBlockMatMul(KernelSet& set);
void FillCodeBookMatMul(KernelSet& set);

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
