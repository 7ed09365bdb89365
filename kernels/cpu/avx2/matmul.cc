// Integer products on AVX2.
#include "kernels/cpu/avx2/matmul.h"

#include "kernels/cpu/avx2/panel.h"

namespace baton::kernels {

void FillAvx2MatMul(KernelSet& set) {
#define BATON_FILL_PANEL(Block) set.matmul[static_cast<int>(Block::kType)] = PanelMatMul<Block>;
  BATON_FOR_EACH_BLOCK32(BATON_FILL_PANEL)
  BATON_FOR_EACH_SUPER_BLOCK(BATON_FILL_PANEL)
#undef BATON_FILL_PANEL
}

}  // namespace baton::kernels
