#include "kernels/cpu/cpu_features.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace baton::kernels {

#if defined(__x86_64__)
namespace {

struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};
Registers Cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}
// The register state that the system saves (XCR0): 6 is XMM and YMM, 0xe6 the AVX-512 registers
// too.
bool SystemSaves(uint32_t state) {
  if ((Cpuid(1, 0).c >> 27 & 1) == 0) return false;  // OSXSAVE
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & state) == state;
}
bool All(uint32_t bits, uint32_t mask) { return (bits & mask) == mask; }

}  // namespace

bool HasAvx2() {
  constexpr uint32_t kFma = 1u << 12, kF16c = 1u << 29, kAvx = 1u << 28, kAvx2 = 1u << 5;
  return SystemSaves(6) && All(Cpuid(1, 0).c, kFma | kF16c | kAvx) && All(Cpuid(7, 0).b, kAvx2);
}
bool HasAvx512Vnni() {
  constexpr uint32_t kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31,
                     kVnni = 1u << 11;
  return HasAvx2() && SystemSaves(0xe6) && All(Cpuid(7, 0).b, kF | kDq | kBw | kVl) &&
         All(Cpuid(7, 0).c, kVnni);
}
bool HasNeonDotProduct() { return false; }

#elif defined(__aarch64__)

bool HasAvx2() { return false; }
bool HasAvx512Vnni() { return false; }
bool HasNeonDotProduct() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }

#else

bool HasAvx2() { return false; }
bool HasAvx512Vnni() { return false; }
bool HasNeonDotProduct() { return false; }

#endif

}  // namespace baton::kernels
