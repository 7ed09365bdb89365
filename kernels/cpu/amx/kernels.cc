// The AMX-INT8 set: many activation rows. Fewer are left to the AVX-512 set, whose kernels need not
// fill tiles.
#include "kernels/cpu/avx512/panel_ops.h"
// The order matters: sums of tiles are added up by panel_ops.h.
#include "kernels/cpu/amx/sweep_tiles.h"
#include "kernels/cpu/fill_matmul.h"

namespace baton::kernels {
namespace {

constexpr int32_t kFewestRows = 9;  // half of a tile's, so that most of it does not idle

constinit KernelSet below;  // initialized without code of this file's instructions

template <class Block>
void MatMul(const MatMulArgs& a) {
  if (a.rows < kFewestRows) return below.matmul[static_cast<int>(Block::kType)](a);
  const TilesInUse tiles(kTileStep<Block>);
  PanelMatMul<Block, SweepTiles<Block>>(a);
}

#ifdef __AMX_INT8__  // not where the instructions are emulated
int64_t MultiplyRegisters(int64_t rounds) {
  const TilesInUse tiles(kTileRowBytes);
  const StepSums zeros{};
  LoadTile<4>(zeros.tiles[0], kTileRowBytes);
  LoadTile<5>(zeros.tiles[0], kTileRowBytes);
  LoadTile<6>(zeros.tiles[0], kTileRowBytes);
  LoadTile<7>(zeros.tiles[0], kTileRowBytes);
  ZeroTile<0>();
  ZeroTile<1>();
  ZeroTile<2>();
  ZeroTile<3>();
  for (int64_t i = 0; i < rounds; ++i) {
    AddSignedProducts<0, 4, 6>();
    AddSignedProducts<1, 4, 7>();
    AddSignedProducts<2, 5, 6>();
    AddSignedProducts<3, 5, 7>();
  }
  return rounds * 4 * kTileRows * kPanelRows * kTileRowBytes * 2;
}
#endif

}  // namespace

void FillAmx(KernelSet& set) {
  FillAvx512(below);
  set.name = "amx";
  FillIntegerMatMuls(set, []<typename Block>() { return MatMul<Block>; });
#ifdef __AMX_INT8__
  set.multiply_registers = MultiplyRegisters;
#endif
}

}  // namespace baton::kernels
