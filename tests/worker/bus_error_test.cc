#include "worker/bus_error.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace baton::worker {
namespace {

TEST(BusError, AFileThatIsCutReadsAsZerosAndIsNamed) {
  constexpr size_t kBytes = 1 << 20;
  const testing::TempDir dir;
  const std::string path = dir.File("weights.gguf");
  std::ofstream(path, std::ios::binary) << std::string(kBytes, 'x');
  const int fd = open(path.c_str(), O_RDONLY);
  const auto* data = static_cast<const char*>(mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0));
  close(fd);
  ASSERT_NE(data, MAP_FAILED);

  HandleBusErrors();
  const uint64_t before = BusErrorCount();
  EXPECT_EQ(data[kBytes - 1], 'x');
  ASSERT_EQ(truncate(path.c_str(), 8192), 0);
  // Several threads, as a stage computes with.
  std::atomic<size_t> sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 8192 + t; i < kBytes; i += 4) sum += static_cast<size_t>(data[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 0u);
  EXPECT_EQ(data[8191], 'x');
  EXPECT_GT(BusErrorCount(), before);
  EXPECT_EQ(BrokenFile(), path);
  munmap(const_cast<char*>(data), kBytes);
}

}  // namespace
}  // namespace baton::worker
