#include "engine/base/mmap_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace baton::engine {
namespace {

TEST(MmapFileTest, MapsTheWholeFile) {
  const testing::TempDir dir;
  std::ofstream(dir.File("a")) << "hello";
  const auto file = MmapFile::Open(dir.File("a"));
  ASSERT_TRUE(file.ok()) << Message(file.status());
  EXPECT_EQ((*file)->view(), "hello");
  EXPECT_EQ((*file)->path(), dir.File("a"));
  (*file)->PreferHugePages(0, 5);
  (*file)->PreferHugePages(3, 1 << 30);
}

TEST(MmapFileTest, AnEmptyFileMapsToNoBytes) {
  const testing::TempDir dir;
  std::ofstream(dir.File("empty"));
  const auto file = MmapFile::Open(dir.File("empty"));
  ASSERT_TRUE(file.ok()) << Message(file.status());
  EXPECT_TRUE((*file)->view().empty());
  EXPECT_TRUE((*file)->Lock(0, 10).ok());
}

TEST(MmapFileTest, RefusesWhatIsNoFile) {
  const testing::TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsNotFound(MmapFile::Open(dir.File("absent")).status()));
  EXPECT_TRUE(absl::IsDataLoss(MmapFile::Open(dir.path()).status()));
  EXPECT_TRUE(absl::IsDataLoss(MmapFile::Open(dir.File("pipe")).status()));
}

}  // namespace
}  // namespace baton::engine
