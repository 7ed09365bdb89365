// AMX's tiles and the instructions on them. A tile has up to 16 rows of up to 64 bytes; tiles 0 to
// 3 hold sums, 4 and 5 activations, 6 and 7 weights.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {

inline constexpr int kNumTiles = 8;
inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;

// What ldtilecfg reads.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShapes) == 64);

// In assembly, since GCC 12's intrinsics do not say which memory they read, and stores before them
// went missing.
#ifdef __AMX_INT8__  // else the tests' emulation stands in

inline void LoadTileShapes(const TileShapes& shapes) {
  asm volatile("ldtilecfg %0" : : "m"(shapes));
}
inline void ReleaseTiles() { asm volatile("tilerelease"); }

template <int T>
inline void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(T));
}
// Rows lie `stride` bytes apart.
template <int T>
inline void LoadTile(const void* p, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(T) : "memory");
}
template <int T>
inline void StoreTile(void* p, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(p), "r"(stride), "i"(T) : "memory");
}
// Sums[row][column] += sum over k of Left[row][k] * Right[k / 4][column][k % 4]: signed bytes, or
// signed ones by unsigned ones.
template <int Sums, int Left, int Right>
inline void AddSignedProducts() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(Left), "i"(Right));
}
template <int Sums, int Left, int Right>
inline void AddUnsignedProducts() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(Left), "i"(Right));
}

#endif

// Gives the thread tiles for products of 16 rows by 16 rows, `step` bytes of each at a time. They
// go with it: tiles in use cost every switch between threads 8 KiB more, and the core its sleep.
class TilesInUse {
 public:
  explicit TilesInUse(int step) {
    TileShapes shapes;
    for (int i = 0; i < kNumTiles; ++i) {
      const bool left = i == 4 || i == 5, right = i >= 6;
      shapes.rows[i] = static_cast<uint8_t>(right ? step / 4 : kTileRows);
      shapes.row_bytes[i] = static_cast<uint16_t>(left ? step : kTileRowBytes);
    }
    LoadTileShapes(shapes);
  }
  ~TilesInUse() { ReleaseTiles(); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

}  // namespace BATON_ISA_NAMESPACE
}  // namespace baton::kernels
