// Which device a flag means, what is said where there is none, and memory that does not suffice: on
// emulated machines.
#include "engine/backend/cuda_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/backend/cuda_backend.h"
#include "tests/support/cuda_emulation.h"
#include "tests/support/emulated_cuda.h"
#include "tests/support/status_matchers.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

cudaDeviceProp Device(const char* name, char uuid_byte, int major, int minor) {
  cudaDeviceProp device = {};
  std::strcpy(device.name, name);
  device.uuid.bytes[0] = uuid_byte;
  device.major = major;
  device.minor = minor;
  device.multiProcessorCount = 2;
  device.pciBusID = uuid_byte;
  device.totalGlobalMem = size_t{1} << 30;
  return device;
}

class CudaDevicesTest : public ::testing::Test {
 protected:
  CudaDevicesTest() {
    host() = {};  // other tests have opened devices
    host().devices = {Device("First", 0x11, 9, 0), Device("Second", 0x12, 8, 6)};
  }
  ~CudaDevicesTest() override { host() = {}; }

  static cuda_emulation::Host& host() { return cuda_emulation::host; }
  static const kernels::CudaApi& cuda() { return baton::testing::EmulatedCuda(); }
  static std::string Text(const absl::Status& status) { return std::string(Message(status)); }
};

TEST_F(CudaDevicesTest, AreFoundByIndexAndUuid) {
  const auto devices = ListCudaDevices(cuda());
  ASSERT_TRUE(devices.ok());
  const std::pair<const char*, int> found[] = {
      {"cuda", 0}, {"cuda:0", 0}, {"cuda:1", 1}, {"GPU-12", 1}, {"cuda:GPU-11000000", 0}};
  for (const auto& [wanted, index] : found) EXPECT_EQ(*FindCudaDevice(wanted, *devices), index);
  for (const char* wanted : {"cuda:2", "cuda:-1", "cuda:", "cuda:x", "cuda:GPU-7", "GPU-1"}) {
    EXPECT_EQ(FindCudaDevice(wanted, *devices).status().code(), absl::StatusCode::kInvalidArgument)
        << wanted;
  }
  EXPECT_THAT(Text(FindCudaDevice("cuda:5", *devices).status()),
              HasSubstr("cuda:1  Second, compute capability 8.6, 0000:12:00.0, "
                        "GPU-12000000-0000-0000-0000-000000000000"));
  EXPECT_TRUE(host().opened.empty());  // looking makes no context
}

TEST_F(CudaDevicesTest, OnlyTheChosenOneIsOpened) {
  ASSERT_TRUE(CudaBackend::Open(cuda(), 1).ok());
  for (const int device : host().opened) EXPECT_EQ(device, 1);
}

TEST_F(CudaDevicesTest, SaysWhyThereIsNone) {
  host().device_count_error = cudaErrorInsufficientDriver;
  host().driver_version = 12080;
  EXPECT_THAT(Text(ListCudaDevices(cuda()).status()),
              HasSubstr("CUDA driver version is insufficient for CUDA runtime version; the driver "
                        "supports CUDA 12.8, this build needs 13.0"));
  host() = {};
  host().driver_version = 0;
  host().devices.clear();
  EXPECT_THAT(Text(ListCudaDevices(cuda()).status()), HasSubstr("the driver supports CUDA none"));
}

TEST_F(CudaDevicesTest, KernelsRunWhereTheyWereBuiltFor) {
  struct Row {
    const char* architectures;
    int major, minor;
    bool runs;
  };
  const Row rows[] = {
      {"75,80,90", 7, 5, true},  {"75,80,90", 8, 6, true}, {"75,80,90", 9, 0, true},
      {"75,80,90", 12, 0, true},  // translated by the driver
      {"75,80,90", 7, 0, false}, {"90", 8, 9, false},      {"90", 10, 0, true},
      {"86", 8, 0, false},       {"", 9, 0, false},        {"native", 9, 0, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(HasKernelsFor(row.architectures, row.major, row.minor), row.runs)
        << row.architectures << " on " << row.major << "." << row.minor;
  }
}

TEST_F(CudaDevicesTest, ACardWithoutKernelsIsRefusedAtStart) {
  host().devices[0] = Device("Old", 0x11, 6, 1);
  EXPECT_THAT(Text(CudaBackend::Open(cuda(), 0).status()),
              HasSubstr("Old: compute capability 6.1, this build has kernels for 75,80"));
  host().has_kernel_image = false;
  EXPECT_THAT(Text(CudaBackend::Open(cuda(), 1).status()), HasSubstr("no kernel image"));
}

TEST_F(CudaDevicesTest, WhatDoesNotFitIsRefusedWithATable) {
  auto backend = CudaBackend::Open(cuda(), 0);
  ASSERT_TRUE(backend.ok());
  const uint64_t free_bytes = host().memory_left;
  const absl::Status status = (*backend)->Plan({.weights_bytes = uint64_t{800} << 20,
                                                .kv_bytes = uint64_t{300} << 20,
                                                .scratch_bytes = uint64_t{1} << 20,
                                                .largest_activations = 1000});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"1.00 GiB of 1.00 GiB are free", "weights", "800 MiB", "KV cache",
                           "300 MiB", "together"}) {
    EXPECT_THAT(Text(status), HasSubstr(part));
  }
  EXPECT_EQ(host().memory_left, free_bytes);
  EXPECT_EQ((*backend)->Allocate(uint64_t{2} << 30).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(CudaDevicesTest, ErrorsInOperationsAreToldBySync) {
  auto backend = CudaBackend::Open(cuda(), 0);
  ASSERT_TRUE(backend.ok());
  const auto memory = (*backend)->Allocate(64 * sizeof(float));
  const Activations x = {static_cast<float*>((*memory)->data()), 2, 32, 32};
  std::vector<float> out(64, 1.0f);

  host().next_error = cudaErrorInvalidDevice;
  (*backend)->ToHost(x, out.data());
  EXPECT_THAT(out, ::testing::Each(0.0f));
  const absl::Status status = (*backend)->Sync();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Text(status), HasSubstr("cuda:0: while computing"));

  host().memory_left = 0;  // nothing is left for the rotation's table
  const RopeParams params = {.dims = 2, .inv_freq = {1}};
  const BatchLayout layout = {.positions = {0, 1}, .sequence = {0, 0}, .block_tables = {}};
  (*backend)->Rope((*backend)->MakeRopeTable(params, layout), 32, x);
  EXPECT_EQ((*backend)->Sync().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE((*backend)->Sync().ok());  // told once
  host().memory_left = size_t{1} << 20;
}

}  // namespace
}  // namespace baton::engine
