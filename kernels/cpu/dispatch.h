// Chooses the kernels that this machine can run.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/kernel_set.h"

namespace baton::kernels {

// An instruction set that this build knows, in rising order of preference.
struct Isa {
  const char* name;  // as BATON_ISA and --isa name it
  bool supported;    // by this machine and its system
  void (*fill)(KernelSet& set);
};
const std::vector<Isa>& KnownIsas();

// The best supported set, up to and including `name` if it is not empty; null where that name is
// unknown or unsupported.
const KernelSet* FindKernelSet(std::string_view name);

}  // namespace baton::kernels
