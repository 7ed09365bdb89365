#pragma once

#include "kernels/kernel_set.h"

namespace baton::kernels {

void FillAvx2MatMul(KernelSet& set);

}  // namespace baton::kernels
