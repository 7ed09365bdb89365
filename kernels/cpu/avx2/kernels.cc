// The AVX2 + FMA + F16C set.
#include "kernels/cpu/avx2/lanes.h"
#include "kernels/cpu/avx2/matmul.h"
// The order matters: what follows is written over Lanes.
#include "kernels/cpu/attention.h"
#include "kernels/cpu/float_matmul.h"
#include "kernels/cpu/float_ops.h"
#include "kernels/kernel_set.h"

namespace baton::kernels {

void FillAvx2(KernelSet& set) {
  set.name = "avx2";
  FillFloatOps(set);
  FillAttention(set);
  FillFloatMatMul(set);
  FillBlock32MatMul(set);
  FillSuperBlockMatMul(set);
  FillCodeBookMatMul(set);
}

}  // namespace baton::kernels
