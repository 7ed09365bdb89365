// The kernel sets that tests compare: all that this machine can run, and those it can emulate.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"

namespace baton::kernels {

#ifdef BATON_EMULATES_NEWER_X86
void FillAvxVnniEmulated(KernelSet& set);
void FillAvx512Emulated(KernelSet& set);
void FillAmxEmulated(KernelSet& set);
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
#ifdef BATON_EMULATES_NEWER_X86
  if (const kernels::KernelSet* avx2 = kernels::FindKernelSet("avx2"); avx2 != nullptr) {
    const auto emulate = [&](const char* name, void (*fill)(kernels::KernelSet&)) {
      kernels::KernelSet emulated;
      fill(emulated);
      sets.push_back({name, kernels::Overlay(*avx2, emulated)});
    };
    emulate("avx_vnni, emulated", kernels::FillAvxVnniEmulated);
    emulate("avx512, emulated", kernels::FillAvx512Emulated);
    emulate("amx, emulated", kernels::FillAmxEmulated);
  }
#endif
  return sets;
}

}  // namespace baton::testing
