// A stage that is divided between a device and the host answers as an undivided one.
#include "engine/runtime/divided_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "engine/arch/supported.h"
#include "engine/backend/cuda_backend.h"
#include "tests/support/emulated_cuda.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace baton::engine {
namespace {

constexpr int32_t kLayers = 5;

uint64_t device_bytes = 0;  // that the small device below has, all of them free

kernels::CudaError MemoryOfSmallDevice(uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = *total_bytes = device_bytes;
  return kernels::kCudaOk;
}

const kernels::CudaApi& SmallCuda() {
  static const kernels::CudaApi api = [] {
    kernels::CudaApi small = testing::EmulatedCuda();
    small.memory_info = MemoryOfSmallDevice;
    return small;
  }();
  return api;
}

class DividedStageTest : public ::testing::Test {
 protected:
  DividedStageTest() {
    const std::string path = dir_.File("tiny.gguf");
    EXPECT_TRUE(testing::WriteTinyModel({.num_layers = kLayers, .tied = true}, path).ok());
    const auto model = GgufModel::Open(path);
    spec_ =
        *MakeStageSpec(*model, *ParseHyperParams(*model), {0, kLayers}, 64, 2, 16, KvType::kF16);
    device_bytes = 1 << 30;
    device_ = *CudaBackend::Open(SmallCuda(), 0);
    host_ = *MakeBackend({.device = "cpu", .threads = 1});
    batch_.tokens = {5, 40, 70, 90};
    batch_.sequences.push_back({.num_rows = 4, .kv_blocks = {0, 1}});
    batch_.outputs.resize(1);
    batch_.outputs[0].row = 3;
    batch_.outputs[0].kind = OutputKind::kLogits;
  }

  absl::StatusOr<std::unique_ptr<DividedStage>> Load(int32_t host_layers) {
    StageSpec spec = spec_;
    spec.host_layers = host_layers;
    LoadOptions options{.models_dir = dir_.path(), .progress = {}};
    options.progress = [this](uint64_t done, uint64_t total) {
      EXPECT_GE(done, done_);
      EXPECT_LE(done, total);
      done_ = done, total_ = total;
      return true;
    };
    done_ = 0;
    return DividedStage::Load(spec, options, device_.get(), host_.get());
  }
  std::vector<float> LogitsOf(DividedStage& stage) {
    StageOutput output;
    const absl::Status status = stage.Run(batch_, nullptr, &output);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? output.results[0].logits : std::vector<float>();
  }

  testing::TempDir dir_;
  StageSpec spec_;
  std::unique_ptr<Backend> device_, host_;
  MicroBatch batch_;
  uint64_t done_ = 0, total_ = 0;  // of loading
};

TEST_F(DividedStageTest, AnswersAsAnUndividedOne) {
  const auto whole = Load(0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<float> expected = LogitsOf(**whole);
  ASSERT_EQ(expected.size(), static_cast<size_t>(testing::kTinyVocabSize));
  for (const int32_t host_layers : {1, 3, kLayers, kLayers + 7}) {
    const auto stage = Load(host_layers);
    ASSERT_TRUE(stage.ok()) << stage.status();
    EXPECT_EQ((*stage)->num_host_layers(), std::min(kLayers, host_layers));
    EXPECT_TRUE((*stage)->first() && (*stage)->last());
    EXPECT_GE((*stage)->weights_bytes(), (*whole)->weights_bytes());  // a tied embedding is on both
    EXPECT_EQ(done_, total_);
    EXPECT_TRUE(testing::SameBits(LogitsOf(**stage), expected)) << host_layers;
  }
}

TEST_F(DividedStageTest, TheDeviceTakesWhatItHasRoomFor) {
  const std::vector<float> expected = LogitsOf(**Load(kLayers));
  std::set<int32_t> seen;
  for (device_bytes = 64 << 10; device_bytes < 8 << 20; device_bytes += 96 << 10) {
    const auto stage = Load(StageSpec::kAsFewAsFit);
    ASSERT_TRUE(stage.ok()) << stage.status();
    const int32_t layers = kLayers - (*stage)->num_host_layers();
    EXPECT_GE(layers, seen.empty() ? 0 : *seen.rbegin()) << device_bytes;
    if (seen.insert(layers).second) {
      EXPECT_TRUE(testing::SameBits(LogitsOf(**stage), expected)) << layers;
    }
    if (layers == kLayers) break;
  }
  EXPECT_TRUE(seen.contains(0));
  EXPECT_TRUE(seen.contains(kLayers));
  EXPECT_GE(seen.size(), 3u) << "never divided";
}

TEST_F(DividedStageTest, KvBlocksGoToAnotherOneDividedAlike) {
  const auto from = Load(2), to = Load(2);
  LogitsOf(**from);
  std::vector<std::byte> read((*from)->kv_block_bytes()), back(read.size());
  ASSERT_TRUE((*from)->ReadKvBlock(0, read).ok());
  EXPECT_GT(std::ranges::count_if(read, [](std::byte b) { return b != std::byte{0}; }), 0);
  ASSERT_TRUE((*to)->WriteKvBlock(0, read).ok());
  ASSERT_TRUE((*to)->ReadKvBlock(0, back).ok());
  EXPECT_EQ(back, read);
}

TEST_F(DividedStageTest, LayersThatMustBeOnTheDeviceAreRefusedWithoutRoom) {
  device_bytes = 64 << 10;
  EXPECT_TRUE(absl::IsResourceExhausted(Load(0).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(Load(kLayers - 1).status()));
}

TEST_F(DividedStageTest, TellsTheDevicesMemory) {
  device_bytes = 12345;
  const auto memory = device_->device_memory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->free_bytes, 12345u);
  EXPECT_FALSE(memory->device_id.empty());
  EXPECT_FALSE(host_->device_memory().has_value());
}

}  // namespace
}  // namespace baton::engine
