// AMX's tiles and their instructions in portable code. They ask of shapes what the processor asks,
// and end the program where it would fault.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulated {

struct Tile {
  unsigned rows, row_bytes;  // none where it isn't configured
  uint8_t bytes[16][64];
};
// Of each thread, as registers are.
inline Tile* Tiles() {
  static thread_local Tile tiles[8];
  return tiles;
}

inline void Require(bool condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "AMX: %s\n", what);
  abort();
}
inline Tile& Configured(int tile) {
  Tile& t = Tiles()[tile];
  Require(t.rows > 0, "a tile is used that has no shape");
  return t;
}

// Bytes 0: palette, 1: start row, 16 to 47: bytes a row, 48 to 63: rows. That tiles of an earlier
// product are released is not asked by the processor, but by its other users.
inline void LoadTileShapes(const void* shapes) {
  const auto* bytes = static_cast<const uint8_t*>(shapes);
  Require(reinterpret_cast<uintptr_t>(shapes) % 64 == 0, "shapes are not aligned");
  Require(bytes[0] == 1, "there is palette 1 alone");
  for (int i = 1; i < 16; ++i) Require(bytes[i] == 0, "a reserved byte of shapes is not 0");
  for (int i = 0; i < 16; ++i) {
    const unsigned row_bytes = bytes[16 + 2 * i] + 256u * bytes[17 + 2 * i], rows = bytes[48 + i];
    Require(row_bytes <= 64 && rows <= 16, "a tile is larger than 16 rows of 64 bytes");
    Require((row_bytes == 0) == (rows == 0),
            "a tile has rows without bytes, or bytes without rows");
    Require(i < 8 || rows == 0, "there are 8 tiles");
    if (i >= 8) continue;
    Require(Tiles()[i].rows == 0, "tiles of an earlier product were not released");
    Tiles()[i] = {rows, row_bytes, {}};
  }
}
inline void ReleaseTiles() { memset(Tiles(), 0, 8 * sizeof(Tile)); }

inline void ZeroTile(int tile) {
  Tile& t = Configured(tile);
  memset(t.bytes, 0, sizeof(t.bytes));
}
inline void LoadTile(int tile, const void* p, int64_t stride) {
  Tile& t = Configured(tile);
  ZeroTile(tile);
  for (unsigned r = 0; r < t.rows; ++r)
    memcpy(t.bytes[r], static_cast<const char*>(p) + r * stride, t.row_bytes);
}
inline void StoreTile(int tile, void* p, int64_t stride) {
  const Tile& t = Configured(tile);
  for (unsigned r = 0; r < t.rows; ++r)
    memcpy(static_cast<char*>(p) + r * stride, t.bytes[r], t.row_bytes);
}

// Right's bytes are of type R.
template <class R>
void AddProducts(int sums, int left, int right) {
  Require(sums != left && sums != right && left != right, "a product has the same tile twice");
  Tile& c = Configured(sums);
  const Tile &a = Configured(left), &b = Configured(right);
  Require(a.row_bytes % 4 == 0 && b.row_bytes % 4 == 0, "a product has rows of incomplete words");
  Require(c.rows == a.rows && a.row_bytes == 4 * b.rows && b.row_bytes == c.row_bytes,
          "a product's tiles don't fit each other");
  for (unsigned m = 0; m < c.rows; ++m) {
    for (unsigned n = 0; n < c.row_bytes / 4; ++n) {
      int32_t sum;
      memcpy(&sum, c.bytes[m] + 4 * n, 4);
      for (unsigned k = 0; k < a.row_bytes; ++k) {
        sum += static_cast<int8_t>(a.bytes[m][k]) * static_cast<R>(b.bytes[k / 4][4 * n + k % 4]);
      }
      memcpy(c.bytes[m] + 4 * n, &sum, 4);
    }
  }
}

}  // namespace emulated
