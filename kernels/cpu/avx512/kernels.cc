// The AVX-512 + VNNI set: many rows by panels; one row streams as on AVX2, where memory is the
// bound. What is missing comes from the AVX2 set.
#include "kernels/cpu/avx2/block32_terms.h"
#include "kernels/cpu/avx2/super_block_terms.h"
#include "kernels/cpu/avx512/panel_ops.h"
// The order matters: panels are multiplied by panel_ops.h.
#include "kernels/cpu/panel.h"

namespace baton::kernels {
namespace {

template <class Block>
void MatMul(const MatMulArgs& a) {
  if constexpr (requires { sizeof(Terms<Block>); }) {
    if (a.rows <= kMostRowsAbreast) return RowMatMul<Block>(a);
  }
  PanelMatMul<Block>(a);
}

}  // namespace

void FillAvx512(KernelSet& set) {
  set.name = "avx512";
#define BATON_FILL_MATMUL(Block) set.matmul[static_cast<int>(Block::kType)] = MatMul<Block>;
  BATON_FOR_EACH_BLOCK32(BATON_FILL_MATMUL)
  BATON_FOR_EACH_SUPER_BLOCK(BATON_FILL_MATMUL)
#undef BATON_FILL_MATMUL
}

}  // namespace baton::kernels
