// What stands in for AMX's tiles multiplies as they do, and refuses what they refuse.
#include "tests/support/emulated_tiles.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>

namespace emulated {
namespace {

struct Shape {
  int tile, rows, row_bytes;
};
using Shapes = std::array<uint8_t, 64>;

void Load(std::initializer_list<Shape> shapes, const std::function<void(Shapes&)>& change = {}) {
  alignas(64) Shapes bytes = {1};
  for (const Shape& shape : shapes) {
    bytes[16 + 2 * shape.tile] = static_cast<uint8_t>(shape.row_bytes);
    bytes[48 + shape.tile] = static_cast<uint8_t>(shape.rows);
  }
  if (change) change(bytes);
  LoadTileShapes(bytes.data());
}

class EmulatedTilesTest : public ::testing::Test {
 protected:
  void TearDown() override { ReleaseTiles(); }
};

TEST_F(EmulatedTilesTest, AddsFourProductsAWord) {
  Load({{0, 2, 12}, {1, 2, 8}, {2, 2, 12}});
  const int8_t left[2][8] = {{1, -2, 3, -4, 5, -6, 7, -8}, {-128, 127, 0, 1, 0, 0, 0, -1}};
  uint8_t right[2][12];
  for (int i = 0; i < 24; ++i) right[i / 12][i % 12] = static_cast<uint8_t>(200 + 5 * i);
  LoadTile(1, left, 8);
  LoadTile(2, right, 12);
  for (const bool is_signed : {true, false}) {
    ZeroTile(0);
    is_signed ? AddProducts<int8_t>(0, 1, 2) : AddProducts<uint8_t>(0, 1, 2);
    int32_t got[2][3];
    StoreTile(0, got, 12);
    for (int m = 0; m < 2; ++m) {
      for (int n = 0; n < 3; ++n) {
        int want = 0;
        for (int k = 0; k < 8; ++k) {
          const uint8_t w = right[k / 4][4 * n + k % 4];
          want += left[m][k] * (is_signed && w > 127 ? w - 256 : w);
        }
        EXPECT_EQ(got[m][n], want) << m << ", " << n << ", signed: " << is_signed;
      }
    }
  }
}

TEST_F(EmulatedTilesTest, RefusesWhatTheProcessorRefuses) {
  const struct {
    const char* message;
    std::function<void()> act;
  } faults[] = {
      {"palette", [] { Load({}, [](Shapes& s) { s[0] = 2; }); }},
      {"reserved", [] { Load({}, [](Shapes& s) { s[7] = 1; }); }},
      {"larger than",
       [] {
         Load({{0, 17, 64}});
       }},
      {"larger than",
       [] {
         Load({{0, 16, 65}});
       }},
      {"without bytes",
       [] {
         Load({{0, 16, 0}});
       }},
      {"8 tiles",
       [] {
         Load({{8, 1, 4}});
       }},
      {"not released",
       [] {
         Load({{0, 1, 4}}), Load({{0, 1, 4}});
       }},
      {"no shape", [] { ZeroTile(0); }},
      {"twice",
       [] {
         Load({{0, 1, 4}}), AddProducts<int8_t>(0, 0, 0);
       }},
      {"incomplete",
       [] {
         Load({{0, 1, 4}, {1, 1, 3}, {2, 1, 4}}), AddProducts<int8_t>(0, 1, 2);
       }},
      {"fit",
       [] {
         Load({{0, 2, 4}, {1, 1, 4}, {2, 1, 4}}), AddProducts<int8_t>(0, 1, 2);
       }},
      {"fit",
       [] {
         Load({{0, 1, 4}, {1, 1, 8}, {2, 1, 4}}), AddProducts<int8_t>(0, 1, 2);
       }},
      {"fit",
       [] {
         Load({{0, 1, 8}, {1, 1, 4}, {2, 1, 4}}), AddProducts<int8_t>(0, 1, 2);
       }},
  };
  for (const auto& fault : faults) EXPECT_DEATH(fault.act(), fault.message);
}

}  // namespace
}  // namespace emulated
