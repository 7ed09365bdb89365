#include "engine/base/pending_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace baton::engine {
namespace {

TEST(PendingFileTest, AppearsWholeOrNotAtAll) {
  const testing::TempDir dir;
  const std::string path = dir.File("out");
  {
    const auto file = PendingFile::Create(path);
    ASSERT_TRUE(file.ok()) << Message(file.status());
    (*file)->stream() << "half";
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  {
    const auto file = PendingFile::Create(path);
    ASSERT_TRUE(file.ok()) << Message(file.status());
    (*file)->stream() << "whole";
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE((*file)->Commit().ok());
  }
  EXPECT_EQ(std::filesystem::file_size(path), 5u);
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(PendingFileTest, SaysWhyItCannotWrite) {
  const auto file = PendingFile::Create("/nonexistent/out");
  EXPECT_EQ(Message(file.status()), "/nonexistent/out: cannot write: No such file or directory");
}

}  // namespace
}  // namespace baton::engine
