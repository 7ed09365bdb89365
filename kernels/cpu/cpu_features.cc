#include "kernels/cpu/cpu_features.h"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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
// The register state that the system saves (XCR0): XMM and YMM; the AVX-512 registers too; AMX's
// shapes and tiles.
constexpr uint32_t kSavesAvx = 0x6, kSavesAvx512 = 0xe6, kSavesTiles = 3u << 17;
bool SystemSaves(uint32_t state) {
  if ((Cpuid(1, 0).c >> 27 & 1) == 0) return false;  // OSXSAVE
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & state) == state;
}
bool All(uint32_t bits, uint32_t mask) { return (bits & mask) == mask; }

// Linux's arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). Older systems know no such request.
bool SystemGrantsTiles() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

}  // namespace

bool HasAvx2() {
  constexpr uint32_t kFma = 1u << 12, kF16c = 1u << 29, kAvx = 1u << 28, kAvx2 = 1u << 5;
  return SystemSaves(kSavesAvx) && All(Cpuid(1, 0).c, kFma | kF16c | kAvx) &&
         All(Cpuid(7, 0).b, kAvx2);
}
bool HasAvxVnni() { return HasAvx2() && All(Cpuid(7, 1).a, 1u << 4); }
bool HasAvx512Vnni() {
  constexpr uint32_t kF = 1u << 16, kDq = 1u << 17, kBw = 1u << 30, kVl = 1u << 31,
                     kVnni = 1u << 11;
  return HasAvx2() && SystemSaves(kSavesAvx512) && All(Cpuid(7, 0).b, kF | kDq | kBw | kVl) &&
         All(Cpuid(7, 0).c, kVnni);
}
bool HasAmxInt8() {
  constexpr uint32_t kTile = 1u << 24, kInt8 = 1u << 25;
  static const bool has = HasAvx512Vnni() && SystemSaves(kSavesTiles) &&
                          All(Cpuid(7, 0).d, kTile | kInt8) && SystemGrantsTiles();
  return has;
}
bool HasNeonDotProduct() { return false; }

#elif defined(__aarch64__)

bool HasAvx2() { return false; }
bool HasAvxVnni() { return false; }
bool HasAvx512Vnni() { return false; }
bool HasAmxInt8() { return false; }
bool HasNeonDotProduct() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }

#else

bool HasAvx2() { return false; }
bool HasAvxVnni() { return false; }
bool HasAvx512Vnni() { return false; }
bool HasAmxInt8() { return false; }
bool HasNeonDotProduct() { return false; }

#endif

}  // namespace baton::kernels
