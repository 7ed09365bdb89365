// Parts that a host lacks, fetched over gRPC from a worker that has them.
#include "worker/part_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/fake_stage.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/worker_server.h"

namespace baton::worker {
namespace {

using ::baton::testing::Fails;
using ::baton::testing::FakeSpec;
using ::baton::testing::FakeStageLoader;
using ::baton::testing::IsOk;
using ::baton::testing::TempDir;

constexpr uint64_t kPartBytes = 40'000'000;

std::string RandomBytes(size_t bytes) {
  std::mt19937_64 random(7);
  std::string data(bytes, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  return data;
}
std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class PartStoreTest : public ::testing::Test {
 protected:
  PartStoreTest() : content_(RandomBytes(kPartBytes)) {
    std::ofstream(source_dir_.File("far.gguf"), std::ios::binary) << content_;
    std::ofstream(models_dir_.File("near.gguf"), std::ios::binary) << "near";
    auto server = WorkerServer::Start({.listen = "127.0.0.1:0",
                                       .models_dir = source_dir_.path(),
                                       .name = "source",
                                       .memory_budget_bytes = 0,
                                       .security = {},
                                       .insecure = false},
                                      std::make_unique<FakeStageLoader>());
    EXPECT_THAT(server, IsOk());
    server_ = *std::move(server);
    sources_ = {server_->address().ToString()};
    spec_ = FakeSpec(0, 3);
    spec_.parts = {{"near.gguf", 4}, {"far.gguf", kPartBytes}, {"unused.gguf", 1}};
    spec_.tensors = {Tensor(0, 0, 4), Tensor(1, 1'000, 20'000'000), Tensor(1, 20'001'000, 32),
                     Tensor(1, 30'000'000, 5'000'000)};
  }
  static engine::TensorPlacement Tensor(uint32_t part, uint64_t offset, uint64_t bytes) {
    return {
        .name = "t", .type = {}, .ne = {1}, .part = part, .file_offset = offset, .bytes = bytes};
  }
  PartStore Store() { return PartStore(models_dir_.path(), cache_dir_.File("parts"), {}); }

  // Needed bytes are the source's, the others are holes.
  void ExpectWhole(const std::string& folder) {
    const std::string fetched = ReadFile(folder + "/far.gguf");
    ASSERT_EQ(fetched.size(), kPartBytes);
    for (const engine::TensorPlacement& tensor : spec_.tensors) {
      if (tensor.part != 1) continue;
      EXPECT_TRUE(fetched.compare(tensor.file_offset, tensor.bytes, content_, tensor.file_offset,
                                  tensor.bytes) == 0);
    }
    EXPECT_EQ(fetched.substr(36'000'000), std::string(4'000'000, '\0'));
    EXPECT_EQ(ReadFile(folder + "/near.gguf"), "near");
  }

  const std::string content_;
  TempDir source_dir_, models_dir_, cache_dir_;
  std::unique_ptr<WorkerServer> server_;
  std::vector<std::string> sources_;
  engine::StageSpec spec_;
};

constexpr uint64_t kNeeded = 20'000'000 + 32 + 5'000'000;

TEST_F(PartStoreTest, FetchesWhatIsNeededOnce) {
  PartStore store = Store();
  uint64_t last_done = 0, last_total = 0;
  const auto folder = store.Provide(spec_, sources_, [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last_done);
    last_done = done;
    last_total = total;
    return true;
  });
  ASSERT_THAT(folder, IsOk());
  ExpectWhole(*folder);
  EXPECT_EQ(store.bytes_received(), kNeeded);
  EXPECT_EQ(last_done, kNeeded);
  EXPECT_EQ(last_total, kNeeded);

  PartStore later = Store();
  ASSERT_THAT(later.Provide(spec_, sources_, nullptr), IsOk());
  EXPECT_EQ(later.bytes_received(), 0u);

  spec_.tensors.push_back(Tensor(1, 35'000'000, 1'000'000));
  ASSERT_THAT(later.Provide(spec_, sources_, nullptr), IsOk());
  EXPECT_EQ(later.bytes_received(), 1'000'000u);
  ExpectWhole(*folder);
}

TEST_F(PartStoreTest, GoesOnWhereItWasInterrupted) {
  PartStore store = Store();
  EXPECT_THAT(
      store.Provide(spec_, sources_, [](uint64_t done, uint64_t) { return done < 18'000'000; }),
      Fails(absl::StatusCode::kCancelled, "given up"));
  PartStore later = Store();
  const auto folder = later.Provide(spec_, sources_, nullptr);
  ASSERT_THAT(folder, IsOk());
  ExpectWhole(*folder);
  EXPECT_LT(later.bytes_received(), kNeeded);
  EXPECT_GT(later.bytes_received(), kNeeded - 18'000'000);
}

TEST_F(PartStoreTest, FetchesAgainWhatTheDiskHasLost) {
  PartStore store = Store();
  const auto folder = store.Provide(spec_, sources_, nullptr);
  ASSERT_THAT(folder, IsOk());
  {
    std::fstream file(*folder + "/far.gguf", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(31'000'000);
    file.put(static_cast<char>(content_[31'000'000] + 1));
  }
  PartStore later = Store();
  ASSERT_THAT(later.Provide(spec_, sources_, nullptr), IsOk());
  ExpectWhole(*folder);
  EXPECT_EQ(later.bytes_received(), 5'000'000u);
}

TEST_F(PartStoreTest, NothingTravelsWhereThePartsAre) {
  std::ofstream(models_dir_.File("far.gguf"), std::ios::binary) << content_;
  PartStore store = Store();
  EXPECT_EQ(*store.Provide(spec_, sources_, nullptr), models_dir_.path());
  EXPECT_EQ(store.bytes_received(), 0u);
  EXPECT_FALSE(std::filesystem::exists(cache_dir_.File("parts")));
}

TEST_F(PartStoreTest, ACacheThatCannotBeWrittenIsNamed) {
  PartStore store(models_dir_.path(), "/sys/baton/parts", {});
  EXPECT_THAT(
      store.Provide(spec_, sources_, nullptr),
      Fails(absl::StatusCode::kPermissionDenied, "XDG_CACHE_HOME names another cache folder"));
}

// A file that may not grow, as on a full disk.
TEST_F(PartStoreTest, AFullDiskIsSaidAndTriedAgain) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit full{kPartBytes - 1'000'000, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  PartStore store = Store();
  const auto folder = store.Provide(spec_, sources_, nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  EXPECT_THAT(folder, Fails(absl::StatusCode::kUnknown, "far.gguf: "));
  const auto again = store.Provide(spec_, sources_, nullptr);
  ASSERT_THAT(again, IsOk());
  ExpectWhole(*again);
}

TEST_F(PartStoreTest, WholePartsOfAHubGoToTheModelsFolder) {
  constexpr char kModel[] = "hf:org/repo/near.gguf";
  std::vector<std::string> fetched;
  bool refuse = false;
  const HubFetch fetch = [&](const std::string& model, const engine::PartFile& part,
                             const std::string& folder,
                             const LoadProgress& progress) -> absl::StatusOr<uint64_t> {
    EXPECT_EQ(model, kModel);
    EXPECT_EQ(folder, models_dir_.path());
    fetched.push_back(part.file_name);
    if (!progress(part.bytes / 2, part.bytes)) return Cancelled("given up");
    if (refuse) return NotFound("{}: not there", part.file_name);
    return part.bytes;
  };
  spec_.parts[2] = {"third.gguf", 100};
  spec_.tensors.push_back(Tensor(2, 0, 10));
  PartStore store(models_dir_.path(), cache_dir_.File("parts"), {}, fetch);
  std::vector<uint64_t> done;
  const auto folder = store.Provide(spec_, {kModel}, [&](uint64_t bytes, uint64_t total) {
    EXPECT_EQ(total, kPartBytes + 100);
    done.push_back(bytes);
    return true;
  });
  ASSERT_THAT(folder, IsOk());
  EXPECT_EQ(*folder, models_dir_.path());
  EXPECT_EQ(fetched, (std::vector<std::string>{"far.gguf", "third.gguf"}));  // near.gguf is there
  EXPECT_EQ(done, (std::vector<uint64_t>{kPartBytes / 2, kPartBytes + 50}));
  EXPECT_EQ(store.bytes_received(), kPartBytes + 100);

  EXPECT_THAT(store.Provide(spec_, {kModel}, [](uint64_t, uint64_t) { return false; }),
              Fails(absl::StatusCode::kCancelled, "given up"));
  refuse = true;
  EXPECT_THAT(store.Provide(spec_, {kModel}, nullptr),
              Fails(absl::StatusCode::kNotFound, "far.gguf: not there"));
  EXPECT_EQ(*Store().Provide(spec_, {kModel}, nullptr), models_dir_.path());  // no way to a hub
}

TEST_F(PartStoreTest, WithoutSourcesTheModelsFolderMustDo) {
  PartStore store = Store();
  EXPECT_EQ(*store.Provide(spec_, {}, nullptr), models_dir_.path());
}

TEST_F(PartStoreTest, SaysWhatIsWrongWithASource) {
  PartStore store = Store();
  spec_.parts[1].bytes = kPartBytes + 1;
  EXPECT_THAT(store.Provide(spec_, sources_, nullptr),
              Fails(absl::StatusCode::kFailedPrecondition,
                    "far.gguf: 40000000 bytes there, expected 40000001"));
  spec_.parts[1] = {"none.gguf", kPartBytes};
  EXPECT_THAT(store.Provide(spec_, sources_, nullptr),
              Fails(absl::StatusCode::kNotFound, "none.gguf"));
  spec_.parts[1] = {"far.gguf", kPartBytes};
  server_.reset();
  EXPECT_THAT(store.Provide(spec_, sources_, nullptr),
              Fails(absl::StatusCode::kUnavailable, sources_[0]));
}

}  // namespace
}  // namespace baton::worker
