#include "cli/npy.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/output.h"
#include "tests/support/temp_dir.h"

namespace baton::cli {
namespace {

TEST(NpyTest, HeaderIsAsNumPyWritesIt) {
  const std::string header = NpyHeader(3, 49152);
  EXPECT_EQ(header.size() % 64, 0u);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<unsigned char>(header[8]) + 256 * static_cast<unsigned char>(header[9]),
            header.size() - 10);
  EXPECT_NE(header.find("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 49152), }"),
            std::string::npos);
  EXPECT_EQ(header.back(), '\n');
}

TEST(NpyTest, AFileAppearsWhole) {
  testing::TempDir dir;
  const std::string path = dir.File("x.npy");
  constexpr std::array<float, 4> kValues = {1, 2, 3, 4};
  {
    auto writer = NpyWriter::Open(path, 2, 2);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Write(std::span(kValues).first(2)).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(ExitCodeOf(writer->Close()), kOwnBug);  // half of it is missing
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  auto writer = NpyWriter::Open(path, 2, 2);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Write(kValues).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(*ReadTextFile(path),
            NpyHeader(2, 2) + std::string(reinterpret_cast<const char*>(kValues.data()), 16));
}

TEST(NpyTest, AFolderThatIsNotThereIsAnErrorOfWriting) {
  EXPECT_EQ(ExitCodeOf(NpyWriter::Open("/no/such/folder/x.npy", 1, 1).status()), kCannotWrite);
}

}  // namespace
}  // namespace baton::cli
