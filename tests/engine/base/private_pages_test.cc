#include "engine/base/private_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

#include "engine/base/mmap_file.h"
#include "tests/support/temp_dir.h"

namespace baton::engine {
namespace {

TEST(PrivatePagesTest, OutliveTheirFile) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const testing::TempDir dir;
  for (const size_t file_bytes : {3 * page, page + 100, size_t{100}}) {
    std::string content(file_bytes, '\0');
    for (size_t i = 0; i < file_bytes; ++i) content[i] = static_cast<char>(i * 31 >> 3);
    const std::string path = dir.File("file");
    std::ofstream(path, std::ios::binary) << content;
    const auto file = MmapFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    const std::span mapping((*file)->data(), (*file)->size());
    ASSERT_EQ(MakePrivate(mapping, std::min(file_bytes, page + 1)), absl::OkStatus());
    std::filesystem::resize_file(path, 0);
    const size_t kept = std::min(file_bytes, 2 * page);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapping.data()), kept),
              content.substr(0, kept));
  }
  EXPECT_EQ(MakePrivate({}, 5), absl::OkStatus());
}

}  // namespace
}  // namespace baton::engine
