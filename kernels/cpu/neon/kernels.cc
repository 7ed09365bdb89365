// The NEON set, with the dot product of ARMv8.2.
#include "kernels/cpu/neon/lanes.h"
#include "kernels/cpu/neon/panel_ops.h"
// The order matters: what follows is written over Lanes and panel_ops.h.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/float_matmul.h"
#include "kernels/cpu/float_ops.h"
#include "kernels/cpu/panel.h"

namespace baton::kernels {

void FillNeon(KernelSet& set) {
  set.name = "neon";
  FillFloatOps(set);
  FillAttention(set);
  FillFloatMatMul(set);
#define BATON_FILL_MATMUL(Block) set.matmul[static_cast<int>(Block::kType)] = PanelMatMul<Block>;
  BATON_FOR_EACH_BLOCK32(BATON_FILL_MATMUL)
  BATON_FOR_EACH_SUPER_BLOCK(BATON_FILL_MATMUL)
#undef BATON_FILL_MATMUL
}

}  // namespace baton::kernels
