// The instructions of AMX, and of AVX-512 with them, in portable code; see avx512_emulation.h.
#pragma once

#include "tests/support/avx512_emulation.h"
#include "tests/support/emulated_tiles.h"

// What kernels/cpu/amx/tiles.h says in assembly.
namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

template <class Shapes>
void LoadTileShapes(const Shapes& shapes) {
  emulated::LoadTileShapes(&shapes);
}
inline void ReleaseTiles() { emulated::ReleaseTiles(); }
template <int T>
void ZeroTile() {
  emulated::ZeroTile(T);
}
template <int T>
void LoadTile(const void* p, int64_t stride) {
  emulated::LoadTile(T, p, stride);
}
template <int T>
void StoreTile(void* p, int64_t stride) {
  emulated::StoreTile(T, p, stride);
}
template <int Sums, int Left, int Right>
void AddSignedProducts() {
  emulated::AddProducts<int8_t>(Sums, Left, Right);
}
template <int Sums, int Left, int Right>
void AddUnsignedProducts() {
  emulated::AddProducts<uint8_t>(Sums, Left, Right);
}

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels

#define FillAmx FillAmxEmulated
