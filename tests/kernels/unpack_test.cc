#include "kernels/unpack.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "tests/support/test_data.h"

namespace baton::kernels {
namespace {

std::vector<uint8_t> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Values of the shared block files, types, and edge cases alike: bit for bit, but for the sign of
// zero.
template <class Block>
void ExpectUnpacksAs(const std::string& name) {
  const std::string path = baton::testing::TestDataDir() + "/conformance/blocks/" + name;
  const std::vector<uint8_t> blocks = ReadFile(path + ".bin"), floats = ReadFile(path + ".f32");
  ASSERT_FALSE(floats.empty()) << path;
  constexpr int kBlock = TraitsOf(Block::kType).block_size;
  const auto* block = reinterpret_cast<const Block*>(blocks.data());
  ASSERT_EQ(floats.size() / 4 * sizeof(Block), blocks.size() * kBlock);
  const auto count = static_cast<int>(floats.size() / 4);
  std::vector<float> row(count);
  FindKernelSet("scalar")->unpack_row[static_cast<int>(Block::kType)](block, count, row.data());
  for (int i = 0; i < count; ++i) {
    float want;
    memcpy(&want, floats.data() + 4 * i, 4);
    const float got = Unpack(block[i / kBlock], i % kBlock);
    ASSERT_EQ(BitsOf(got), BitsOf(row[i])) << name << " value " << i;
    if (want == 0 && got == 0) continue;
    ASSERT_EQ(BitsOf(got), BitsOf(want))
        << name << " value " << i << ": got " << got << ", expected " << want;
  }
}

template <class Block>
class UnpackTest : public ::testing::Test {};

#define BATON_BLOCK_TYPE(Block) Block,
using QuantizedBlocks = ::testing::Types<BATON_FOR_EACH_BLOCK32(BATON_BLOCK_TYPE)
                                             BATON_FOR_EACH_SUPER_BLOCK(BATON_BLOCK_TYPE) BlockF16,
                                         BlockBF16>;
#undef BATON_BLOCK_TYPE
TYPED_TEST_SUITE(UnpackTest, QuantizedBlocks);

TYPED_TEST(UnpackTest, EqualsTheFormatsOwnValues) {
  SKIP_WITHOUT_TEST_DATA();
  const std::string name = TraitsOf(TypeParam::kType).name;
  ExpectUnpacksAs<TypeParam>(name);
  ExpectUnpacksAs<TypeParam>(name + ".edge");
}

TEST(HalfTest, ConvertsAllHalvesThereAndBack) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = HalfToFloat(static_cast<uint16_t>(h));
    const bool nan = (h & 0x7fff) > 0x7c00;
    EXPECT_EQ(FloatToHalf(f), nan ? h | 0x200 : h);
  }
}

TEST(HalfTest, RoundsToNearestTiesToEven) {
  EXPECT_EQ(FloatToHalf(1.0f + 1.0f / 2048), 0x3c00);  // halfway, down to even
  EXPECT_EQ(FloatToHalf(1.0f + 3.0f / 2048), 0x3c02);  // halfway, up to even
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);                   // infinity
  EXPECT_EQ(FloatToHalf(FloatFromBits(0x33000000)), 0x0000);  // half the smallest
  EXPECT_EQ(FloatToHalf(FloatFromBits(0x33000001)), 0x0001);
}

}  // namespace
}  // namespace baton::kernels
