#include "engine/base/block_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temp_dir.h"

namespace baton::engine {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(BlockFileTest, WritesWhatItIsGiven) {
  const testing::TempDir dir;
  const std::string path = dir.File("out");
  std::string expected;
  BlockFile file;
  for (const auto mode : {BlockFile::Mode::kReplace, BlockFile::Mode::kAppend}) {
    ASSERT_TRUE(file.Open(path, mode));
    for (const size_t size : {1u, 5'000'000u, 0u, 3u << 20, 7u}) {
      const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
      file << piece;
      expected += piece;
      EXPECT_EQ(static_cast<size_t>(file.tellp()), expected.size());
    }
    file.put('!');
    expected += '!';
    EXPECT_TRUE(file.Close());
    EXPECT_EQ(Read(path), expected);
  }
  ASSERT_TRUE(file.Open(path, BlockFile::Mode::kReplace));
  file << "once more" << std::flush;
  EXPECT_EQ(Read(path), "once more");
}

TEST(BlockFileTest, GoesOnElsewhere) {
  const testing::TempDir dir;
  BlockFile file;
  ASSERT_TRUE(file.Open(dir.File("out"), BlockFile::Mode::kReplace));
  file << "head";
  file.seekp(9).put('!');
  EXPECT_EQ(file.tellp(), 10);
  file.seekp(0) << "H";
  EXPECT_TRUE(file.Close());
  EXPECT_EQ(Read(dir.File("out")), std::string("Head\0\0\0\0\0!", 10));
}

TEST(BlockFileTest, SaysWhatCouldNotBeWritten) {
  BlockFile file;
  EXPECT_FALSE(file.Open("/nonexistent/out", BlockFile::Mode::kAppend));
  EXPECT_EQ(errno, ENOENT);
  ASSERT_TRUE(file.Open("/dev/full", BlockFile::Mode::kAppend));
  file << "a few bytes, which are still held";
  EXPECT_TRUE(file.good());
  EXPECT_FALSE(file.Close());
  EXPECT_EQ(errno, ENOSPC);
  ASSERT_TRUE(file.Open("/dev/full", BlockFile::Mode::kAppend));
  file << std::string(5 << 20, 'x');
  EXPECT_FALSE(file.good());
  EXPECT_FALSE(file.Close());
}

}  // namespace
}  // namespace baton::engine
