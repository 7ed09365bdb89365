// What the emulation must find: accesses that a GPU would let pass, and barriers that are missing.
// Built with AddressSanitizer.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "tests/support/cuda_emulation.h"

namespace {

using baton::kernels::kAllLanes;
using cuda_emulation::ThreadOrder;

constexpr int kThreads = 64;

__global__ void WriteStaticShared(int index, int* out) {
  __shared__ int values[kThreads];
  __shared__ int others[kThreads];
  others[threadIdx.x] = 1;
  values[static_cast<int>(threadIdx.x) + index] = 2;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x] + others[threadIdx.x];
}
__global__ void WriteDynamicShared(int index, int* out) {
  BATON_DYNAMIC_SHARED(int, values);
  values[static_cast<int>(threadIdx.x) + index] = 3;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
__global__ void WriteGlobal(int index, int* out) { out[static_cast<int>(threadIdx.x) + index] = 3; }

struct AccessRow {
  const char* name;
  void (*launch)(int index, int* out);
};
const AccessRow kAccesses[] = {
    {"static shared memory",
     [](int index, int* out) {
       BATON_LAUNCH(WriteStaticShared, dim3(1), dim3(kThreads), 0, nullptr, index, out);
     }},
    {"dynamic shared memory",
     [](int index, int* out) {
       BATON_LAUNCH(WriteDynamicShared, dim3(1), dim3(kThreads), kThreads * sizeof(int), nullptr,
                    index, out);
     }},
    {"global memory",
     [](int index, int* out) {
       BATON_LAUNCH(WriteGlobal, dim3(1), dim3(kThreads), 0, nullptr, index, out);
     }},
};

class EmulationTest : public ::testing::Test {
 protected:
  EmulationTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    cudaMalloc(&memory_, kThreads * sizeof(int));
  }
  ~EmulationTest() override {
    cudaFree(memory_);
    cuda_emulation::SetThreadOrder(ThreadOrder::kForward);
  }
  int* out() { return static_cast<int*>(memory_); }
  void* memory_ = nullptr;
};
using EmulationDeathTest = EmulationTest;

TEST_F(EmulationDeathTest, AccessesOutOfBoundsAreFound) {
  for (const AccessRow& access : kAccesses) {
    SCOPED_TRACE(access.name);
    access.launch(0, out());
    for (const int beyond : {-1, 1}) {
      EXPECT_DEATH(access.launch(beyond, out()), "AddressSanitizer");
    }
  }
}

__global__ void SkipBarrier() {
  if (threadIdx.x != 5) __syncthreads();
}
__global__ void TakeOtherBarrier() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void SkipShuffle(int* out) {
  if (threadIdx.x != 7) out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1, 1);
}

TEST_F(EmulationDeathTest, BarriersThatSomeThreadsMissAreFound) {
  const auto launch = [](auto kernel, auto... args) {
    BATON_LAUNCH(kernel, dim3(1), dim3(kThreads), 0, nullptr, args...);
  };
  EXPECT_DEATH(launch(SkipBarrier), "a barrier after some threads have returned");
  EXPECT_DEATH(launch(TakeOtherBarrier), "threads wait at different barriers");
  EXPECT_DEATH(launch(SkipShuffle, out()), "a warp operation that some lanes never reach");
}

// Each thread reads what its neighbour wrote, with or without a barrier between.
template <bool Barrier>
__global__ void ReadNeighbour(int* out) {
  __shared__ int values[kThreads];
  values[threadIdx.x] = -1;
  __syncthreads();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (Barrier) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % kThreads];
}

TEST_F(EmulationTest, AMissingBarrierShowsInTheOrderOfThreads) {
  std::set<std::vector<int>> with, without;
  int* const to = out();
  for (const ThreadOrder order :
       {ThreadOrder::kForward, ThreadOrder::kReverse, ThreadOrder::kShuffled}) {
    cuda_emulation::SetThreadOrder(order);
    BATON_LAUNCH(ReadNeighbour<true>, dim3(1), dim3(kThreads), 0, nullptr, to);
    with.insert(std::vector(to, to + kThreads));
    BATON_LAUNCH(ReadNeighbour<false>, dim3(1), dim3(kThreads), 0, nullptr, to);
    without.insert(std::vector(to, to + kThreads));
  }
  EXPECT_EQ(with.size(), 1u);
  EXPECT_EQ(without.size(), 3u);
}

}  // namespace
