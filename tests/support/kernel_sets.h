// The kernel sets that tests compare: all that this machine can run, and those it can emulate.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"

namespace baton::kernels {

#ifdef BATON_EMULATES_AVX512
void FillAvx512Emulated(KernelSet& set);
#endif

}  // namespace baton::kernels

namespace baton::testing {

struct NamedKernelSet {
  std::string name;
  kernels::KernelSet set;
};

// The scalar set, which defines the bits, is the first.
inline std::vector<NamedKernelSet> KernelSetsUnderTest() {
  std::vector<NamedKernelSet> sets;
  for (const kernels::Isa& isa : kernels::KnownIsas()) {
    if (isa.supported) sets.push_back({isa.name, *kernels::FindKernelSet(isa.name)});
  }
#ifdef BATON_EMULATES_AVX512
  if (const kernels::KernelSet* avx2 = kernels::FindKernelSet("avx2"); avx2 != nullptr) {
    kernels::KernelSet emulated;
    kernels::FillAvx512Emulated(emulated);
    sets.push_back({"avx512, emulated", kernels::Overlay(*avx2, emulated)});
  }
#endif
  return sets;
}

}  // namespace baton::testing
