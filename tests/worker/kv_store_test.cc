#include "worker/kv_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace baton::worker {
namespace {

using ::baton::testing::Fails;
using ::baton::testing::IsOk;
using ::baton::testing::TempDir;

constexpr uint64_t kBlockBytes = 1000;
constexpr uint64_t kLimit = 100'000;

KvRecord Record(int32_t num_blocks = 5, engine::LayerRange layers = {2, 4}) {
  return {.key = "0123456789abcdef0123456789abcdef",
          .layers = layers,
          .form = "cpu kv-type 0",
          .block_bytes = kBlockBytes,
          .num_blocks = num_blocks};
}

std::byte ByteOf(int32_t block, size_t i) { return static_cast<std::byte>(block * 31 + i); }

absl::Status Fill(int32_t block, std::span<std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteOf(block, i);
  return absl::OkStatus();
}

// Compares, and counts blocks.
KvStore::Sink Checker(int* blocks) {
  return [blocks](int32_t block, std::span<const std::byte> bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], ByteOf(block, i));
    ++*blocks;
    return absl::OkStatus();
  };
}
const KvStore::Sink kIgnore = [](int32_t, std::span<const std::byte>) { return absl::OkStatus(); };

class KvStoreTest : public ::testing::Test {
 protected:
  std::string OnlyFile() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      found.push_back(entry.path().string());
    EXPECT_EQ(found.size(), 1u);
    return found.empty() ? "" : found[0];
  }

  TempDir dir_;
  const std::string folder_ = dir_.File("kv");
  KvStore store_{folder_, kLimit};
};

TEST_F(KvStoreTest, BringsBackWhatWasSaved) {
  ASSERT_THAT(store_.Save(Record(), Fill), IsOk());
  int blocks = 0;
  ASSERT_THAT(KvStore(folder_, kLimit).Restore(Record(), Checker(&blocks)), IsOk());
  EXPECT_EQ(blocks, 5);
  EXPECT_EQ(std::filesystem::status(folder_).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(KvStoreTest, RefusesWhatIsOfSomethingElse) {
  ASSERT_THAT(store_.Save(Record(), Fill), IsOk());
  EXPECT_THAT(store_.Restore(Record(5, {2, 5}), kIgnore),
              Fails(absl::StatusCode::kNotFound, "2-4"));
  EXPECT_THAT(store_.Restore(Record(4), kIgnore), Fails(absl::StatusCode::kDataLoss, "expected"));
  KvRecord other_form = Record();
  other_form.form = "cpu kv-type 2";
  EXPECT_THAT(store_.Restore(other_form, kIgnore), Fails(absl::StatusCode::kDataLoss, "kv-type 2"));
}

// A byte at each of some places, a byte more, a byte less.
TEST_F(KvStoreTest, RefusesADamagedFile) {
  ASSERT_THAT(store_.Save(Record(), Fill), IsOk());
  const std::string path = OnlyFile();
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> damaged = {whole + "x", whole.substr(0, whole.size() - 1),
                                      whole.substr(0, whole.size() / 2), ""};
  for (const size_t at : {size_t{0}, size_t{20}, whole.size() / 2, whole.size() - 1}) {
    damaged.push_back(whole);
    damaged.back()[at] ^= 1;
  }
  for (const std::string& content : damaged) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    EXPECT_THAT(store_.Restore(Record(), kIgnore), Fails(absl::StatusCode::kDataLoss, path));
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << whole;
  EXPECT_THAT(store_.Restore(Record(), kIgnore), IsOk());
}

TEST_F(KvStoreTest, KeepsToItsLimit) {
  ASSERT_THAT(store_.Save(Record(60), Fill), IsOk());
  EXPECT_THAT(store_.Save(Record(60), Fill), IsOk()) << "in place of itself";
  EXPECT_THAT(store_.Save(Record(60, {4, 6}), Fill),
              Fails(absl::StatusCode::kResourceExhausted, "limit of 100000"));
  EXPECT_GT(store_.Remove(Record().key).value_or(0), 60 * kBlockBytes);
  EXPECT_THAT(store_.Save(Record(60, {4, 6}), Fill), IsOk());
}

TEST_F(KvStoreTest, ASourceThatFailsLeavesNothing) {
  const auto fail = [](int32_t block, std::span<std::byte> bytes) {
    return block < 3 ? Fill(block, bytes) : Unavailable("lost");
  };
  EXPECT_THAT(store_.Save(Record(), fail), Fails(absl::StatusCode::kUnavailable, "lost"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// A file that may not grow, as on a full disk.
TEST_F(KvStoreTest, AFullDiskLeavesNothing) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit full{30'000, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const auto saved = store_.Save(Record(60), Fill);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  EXPECT_THAT(saved, Fails(absl::StatusCode::kUnknown, folder_));
  EXPECT_THAT(saved, Fails(absl::StatusCode::kUnknown, std::strerror(EFBIG)));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_THAT(store_.Save(Record(60), Fill), IsOk());
}

TEST_F(KvStoreTest, TakesNoPathForAKey) {
  for (const char* key : {"", "../../../../../etc/cron.d/0123456",
                          "0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef0123456789abcde/"}) {
    KvRecord record = Record();
    record.key = key;
    EXPECT_THAT(store_.Save(record, Fill), Fails(absl::StatusCode::kInvalidArgument, "KV key"));
    EXPECT_THAT(store_.Restore(record, kIgnore),
                Fails(absl::StatusCode::kInvalidArgument, "KV key"));
    EXPECT_THAT(store_.Remove(key), Fails(absl::StatusCode::kInvalidArgument, "KV key"));
  }
}

}  // namespace
}  // namespace baton::worker
