// The AVX-512 + VNNI set.
#include "kernels/kernel_set.h"

namespace baton::kernels {

void FillAvx512(KernelSet& set) { set.name = "avx512"; }

}  // namespace baton::kernels
