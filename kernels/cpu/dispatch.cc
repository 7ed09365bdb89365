#include "kernels/cpu/dispatch.h"

#include <map>
#include <string>

#include "kernels/cpu/cpu_features.h"

namespace baton::kernels {
namespace {

template <class F, size_t N>
void OverlayEntries(F (&base)[N], const F (&over)[N]) {
  for (size_t i = 0; i < N; ++i) {
    if (over[i] != nullptr) base[i] = over[i];
  }
}
template <class F>
void OverlayEntry(F& base, F over) {
  if (over != nullptr) base = over;
}

}  // namespace

KernelSet Overlay(const KernelSet& base, const KernelSet& over) {
  KernelSet set = base;
  OverlayEntry(set.name, over.name);
  OverlayEntries(set.round, over.round);
  OverlayEntries(set.matmul, over.matmul);
  OverlayEntries(set.unpack_row, over.unpack_row);
  OverlayEntry(set.rms_norm, over.rms_norm);
  OverlayEntry(set.layer_norm, over.layer_norm);
  OverlayEntry(set.add_scaled, over.add_scaled);
  OverlayEntry(set.scale, over.scale);
  OverlayEntry(set.soft_cap, over.soft_cap);
  OverlayEntry(set.clamp, over.clamp);
  OverlayEntries(set.unary, over.unary);
  OverlayEntries(set.gated, over.gated);
  OverlayEntry(set.gated_swiglu_clamped, over.gated_swiglu_clamped);
  OverlayEntry(set.rope_halves, over.rope_halves);
  OverlayEntry(set.rope_interleaved, over.rope_interleaved);
  OverlayEntry(set.attend, over.attend);
  OverlayEntry(set.merge_partials, over.merge_partials);
  OverlayEntry(set.finish_attention, over.finish_attention);
  OverlayEntry(set.multiply_registers, over.multiply_registers);
  return set;
}

const std::vector<Isa>& KnownIsas() {
  static const auto* isas = new std::vector<Isa> {
    {"scalar", true, FillScalar},
#if defined(__x86_64__)
        {"avx2", HasAvx2(), FillAvx2}, {"avx_vnni", HasAvxVnni(), FillAvxVnni},
        {"avx512", HasAvx512Vnni(), FillAvx512}, {"amx", HasAmxInt8(), FillAmx},
#elif defined(__aarch64__)
        {"neon", HasNeonDotProduct(), FillNeon},
#endif
  };
  return *isas;
}

const KernelSet* FindKernelSet(std::string_view name) {
  static const auto* sets = [] {
    auto* all = new std::map<std::string, KernelSet, std::less<>>;
    KernelSet folded;
    for (const Isa& isa : KnownIsas()) {
      if (!isa.supported) continue;
      KernelSet own;
      isa.fill(own);
      folded = Overlay(folded, own);
      (*all)[isa.name] = folded;
      (*all)[""] = folded;
    }
    return all;
  }();
  const auto it = sets->find(name);
  return it != sets->end() ? &it->second : nullptr;
}

}  // namespace baton::kernels
