// Runs CUDA kernels on the CPU, so that the very .cu sources that nvcc compiles are tested where
// there is no GPU. Included before everything else (-include) where a .cu file is compiled as C++.
//
// Each thread of a block is a fiber; a block's fibers run one at a time until they meet a barrier
// or a warp operation, blocks one after another on the calling thread. What a GPU would only do
// wrong sometimes is found every time:
//  - the order of the threads can be turned round or shuffled (SetThreadOrder): results that depend
//    on it lack a barrier;
//  - barriers and warp operations that not all threads reach abort with a line;
//  - dynamic shared memory and device memory are allocations of their exact size, filled with 0xff:
//    AddressSanitizer sees what goes beyond, and what is read before it is written is NaN. It
//    guards static shared memory too, for which such a build runs kernels on one thread only.
//  - what a copy to the host brings is only there when somebody has waited for it;
//  - waits and copies where work is being recorded abort with a line.
// Not modelled: time, limits of registers and shared memory, blocks that wait for each other.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define BATON_CUDA_EMULATED
#define FillCuda FillCudaEmulated

#define __device__
#define __host__
#if defined(__SANITIZE_ADDRESS__)
// AddressSanitizer guards neither what is thread_local nor what the linker may merge.
#define __global__ static
#define __shared__ static
#else
#define __global__
#define __shared__ static thread_local  // one block runs at a time on a thread
#endif
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

namespace cuda_emulation {

enum class ThreadOrder { kForward, kReverse, kShuffled };
enum class FiberState { kReady, kAtBarrier, kInWarp, kDone };

#if defined(__x86_64__)
// Saves the callee-saved registers on the stack and goes on with the other one.
extern "C" void BatonSwitchStack(void** save, void* load);
asm(R"(
  .text
  .weak BatonSwitchStack
  .type BatonSwitchStack,@function
BatonSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size BatonSwitchStack,.-BatonSwitchStack
)");
#endif

constexpr size_t kStackBytes = 128 << 10;

struct Fiber {
  dim3 thread;
  unsigned index = 0;
  FiberState state = FiberState::kDone;
  int line = 0;  // of the barrier it waits at
  std::unique_ptr<char[]> stack;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
#endif
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

// Where the lanes of a warp meet: each leaves a value and reads all of them.
struct Meeting {
  unsigned lanes = 0;  // that exist
  unsigned arrived = 0;
  unsigned round = 0;
  uint64_t left[32];
  uint64_t read[2][32];  // of the last round and the one before it
};

struct Machine {
  dim3 thread, block, block_size, grid_size;
  Fiber* running = nullptr;
  Fiber scheduler;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Meeting> warps;
  std::unique_ptr<char[]> shared;
  void (*call)(const void*) = nullptr;
  const void* argument = nullptr;
  std::mt19937 random;
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_stack = nullptr;
  size_t scheduler_stack_bytes = 0;
#endif
};

inline constinit thread_local Machine* machine = nullptr;
inline ThreadOrder thread_order = ThreadOrder::kForward;
inline void SetThreadOrder(ThreadOrder order) { thread_order = order; }

[[noreturn]] inline void Fail(const char* what, int line) {
  const Machine& m = *machine;
  std::fprintf(stderr, "CUDA emulation: %s (block %u,%u,%u, thread %u,%u,%u, line %d)\n", what,
               m.block.x, m.block.y, m.block.z, m.thread.x, m.thread.y, m.thread.z, line);
  std::abort();
}

inline void Switch(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  const bool back = &to == &machine->scheduler;
  __sanitizer_start_switch_fiber(&from.fake_stack, back ? machine->scheduler_stack : to.stack.get(),
                                 back ? machine->scheduler_stack_bytes : kStackBytes);
#endif
#if defined(__x86_64__)
  BatonSwitchStack(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}
inline void Yield(FiberState state) {
  machine->running->state = state;
  Switch(*machine->running, machine->scheduler);
}

// A fiber stays and runs one thread of every later block.
inline void FiberMain() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &machine->scheduler_stack,
                                  &machine->scheduler_stack_bytes);
#endif
  for (;;) {
    machine->call(machine->argument);
    Yield(FiberState::kDone);
  }
}
inline void StartFiber(Fiber& fiber) {
  fiber.state = FiberState::kReady;
  if (fiber.stack != nullptr) return;
  fiber.stack = std::make_unique<char[]>(kStackBytes);
#if defined(__x86_64__)
  const auto top = (reinterpret_cast<uintptr_t>(fiber.stack.get()) + kStackBytes) & ~uintptr_t{63};
  auto** frame = reinterpret_cast<void**>(top) - 8;
  std::fill_n(frame, 8, nullptr);
  frame[6] = reinterpret_cast<void*>(&FiberMain);
  fiber.stack_pointer = frame;
#else
  getcontext(&fiber.context);
  fiber.context.uc_stack = {fiber.stack.get(), 0, kStackBytes};
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, FiberMain, 0);
#endif
}

inline dim3 ThreadOf(unsigned index, dim3 size) {
  return {index % size.x, index / size.x % size.y, index / (size.x * size.y)};
}

// Lets those go on who wait at a barrier that all have reached. Whether anybody does.
inline bool OpenBarrier(unsigned threads) {
  Machine& m = *machine;
  unsigned waiting = 0, done = 0;
  int line = 0;
  for (unsigned i = 0; i < threads; ++i) {
    const Fiber& fiber = *m.fibers[i];
    if (fiber.state == FiberState::kDone) ++done;
    if (fiber.state != FiberState::kAtBarrier) continue;
    if (waiting++ > 0 && fiber.line != line) Fail("threads wait at different barriers", line);
    line = fiber.line;
  }
  if (waiting == 0 || waiting + done < threads) return false;
  if (done > 0) Fail("a barrier after some threads have returned", line);
  for (unsigned i = 0; i < threads; ++i) m.fibers[i]->state = FiberState::kReady;
  return true;
}

inline void RunBlock(unsigned threads) {
  Machine& m = *machine;
  m.warps.assign((threads + 31) / 32, Meeting{});
  std::vector<unsigned> order(threads);
  std::iota(order.begin(), order.end(), 0u);
  if (thread_order == ThreadOrder::kReverse) std::reverse(order.begin(), order.end());
  for (unsigned i = 0; i < threads; ++i) {
    Fiber& fiber = *m.fibers[i];
    fiber.index = i;
    fiber.thread = ThreadOf(i, m.block_size);
    m.warps[i / 32].lanes |= 1u << (i % 32);
    StartFiber(fiber);
  }
  for (unsigned done = 0; done < threads;) {
    if (thread_order == ThreadOrder::kShuffled) std::shuffle(order.begin(), order.end(), m.random);
    bool moved = false;
    for (unsigned i : order) {
      Fiber& fiber = *m.fibers[i];
      if (fiber.state != FiberState::kReady) continue;
      m.running = &fiber;
      m.thread = fiber.thread;
      Switch(m.scheduler, fiber);
      done += fiber.state == FiberState::kDone;
      moved = true;
    }
    moved |= OpenBarrier(threads);
    if (!moved) Fail("deadlock: a warp operation that some lanes never reach", 0);
  }
}

// Copies to the host that nobody has waited for yet; later work of their stream waits for them.
using Copies = std::vector<std::function<void()>>;
using Stream = std::shared_ptr<Copies>;
inline void Finish(const Stream& copies) {
  if (copies == nullptr) return;
  for (const auto& copy : std::exchange(*copies, {})) copy();
}
inline void Finish(void* stream) {
  if (stream != nullptr) Finish(*static_cast<Stream*>(stream));
}

// Launches that are noted in place of run, while a stream is recorded.
using Recording = std::vector<std::function<void()>>;
inline constinit thread_local Recording* recording = nullptr;
inline constinit thread_local int launches = 0;  // of this thread, noted ones too
inline void RefuseWhileRecording(const char* what) {
  if (recording == nullptr) return;
  std::fprintf(stderr, "CUDA emulation: %s while work is recorded\n", what);
  std::abort();
}

template <class F>
void RunGrid(dim3 grid, dim3 block, size_t shared_bytes, const F& body) {
  if (machine == nullptr) machine = new Machine;
  Machine& m = *machine;
  const unsigned threads = block.x * block.y * block.z;
  m.block_size = block;
  m.grid_size = grid;
  if (threads == 0 || threads > 1024 || grid.x * grid.y * grid.z == 0 || grid.y > 65535 ||
      grid.z > 65535) {
    Fail("a launch that CUDA refuses", 0);
  }
  while (m.fibers.size() < threads) m.fibers.push_back(std::make_unique<Fiber>());
  m.argument = &body;
  m.call = [](const void* f) { (*static_cast<const F*>(f))(); };
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        m.block = {x, y, z};
        m.shared = std::make_unique_for_overwrite<char[]>(shared_bytes);
        std::memset(m.shared.get(), 0xff, shared_bytes);
        RunBlock(threads);
      }
    }
  }
}

// `body` holds the kernel's arguments by value.
template <class F>
void Launch(dim3 grid, dim3 block, size_t shared_bytes, void* stream, const F& body) {
  Finish(stream);
  ++launches;
  if (recording == nullptr) return RunGrid(grid, block, shared_bytes, body);
  recording->push_back([=] { RunGrid(grid, block, shared_bytes, body); });
}

inline void Barrier(int line) {
  machine->running->line = line;
  Yield(FiberState::kAtBarrier);
}

inline int Lane() { return static_cast<int>(machine->running->index % 32); }

// All lanes of the warp leave a value and read everyone's. The array lasts until the next meeting
// but one.
inline const uint64_t* Meet(unsigned mask, uint64_t value) {
  Machine& m = *machine;
  const unsigned warp = m.running->index / 32;
  Meeting& meeting = m.warps[warp];
  if ((mask & meeting.lanes) != meeting.lanes) Fail("a mask that leaves out lanes of the warp", 0);
  meeting.left[Lane()] = value;
  meeting.arrived |= 1u << Lane();
  const unsigned round = meeting.round & 1;
  if (meeting.arrived != meeting.lanes) {
    Yield(FiberState::kInWarp);
    return meeting.read[round];
  }
  std::memcpy(meeting.read[round], meeting.left, sizeof(meeting.left));
  meeting.arrived = 0;
  ++meeting.round;
  for (unsigned i = warp * 32; i < std::min<size_t>(warp * 32 + 32, m.fibers.size()); ++i) {
    if (m.fibers[i]->state == FiberState::kInWarp) m.fibers[i]->state = FiberState::kReady;
  }
  return meeting.read[round];
}

template <class T>
T Shuffle(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  const uint64_t* all = Meet(mask, bits);
  if ((machine->warps[machine->running->index / 32].lanes >> from & 1) == 0)
    Fail("a shuffle reads a lane that is not there", 0);
  T result;
  std::memcpy(&result, &all[from], sizeof(result));
  return result;
}

// What mma.sync does: c += a * b over a warp's fragments, [16, 32] int8 times [32, 8].
struct MmaFragments {
  const uint32_t* a;  // [4] or [2]
  const uint32_t* b;  // [2] or [1]
};
template <int K>
void MultiplyFragments(int (&c)[4], const uint32_t* a, const uint32_t* b) {
  const MmaFragments own = {a, b};
  const uint64_t* all = Meet(~0u, reinterpret_cast<uint64_t>(&own));
  const int group = Lane() / 4, quad = Lane() % 4;
  const auto of = [all](int lane) { return reinterpret_cast<const MmaFragments*>(all[lane]); };
  for (int i = 0; i < 4; ++i) {
    const int half = i / 2, column = quad * 2 + i % 2;  // row group + 8 * half
    for (int k = 0; k < K; k += 4) {
      const uint32_t a_word = of(group * 4 + k % 16 / 4)->a[k / 16 * 2 + half];
      const uint32_t b_word = of(column * 4 + k % 16 / 4)->b[k / 16];
      for (int byte = 0; byte < 32; byte += 8)
        c[i] += int{static_cast<int8_t>(a_word >> byte)} * static_cast<int8_t>(b_word >> byte);
    }
  }
  Meet(~0u, 0);  // nobody's fragments go before all have read them
}

}  // namespace cuda_emulation

#define threadIdx (::cuda_emulation::machine->thread)
#define blockIdx (::cuda_emulation::machine->block)
#define blockDim (::cuda_emulation::machine->block_size)
#define gridDim (::cuda_emulation::machine->grid_size)
#define __syncthreads() ::cuda_emulation::Barrier(__LINE__)

#define BATON_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)  \
  ::cuda_emulation::Launch((grid), (block), (shared_bytes), (stream), \
                           [=]() { kernel(__VA_ARGS__); })
#define BATON_DYNAMIC_SHARED(type, name) \
  type* name = reinterpret_cast<type*>(::cuda_emulation::machine->shared.get())

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
  return cuda_emulation::Shuffle(mask, value, from & 31);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return cuda_emulation::Shuffle(mask, value, cuda_emulation::Lane() ^ bits);
}
inline void __syncwarp(unsigned mask = ~0u) { cuda_emulation::Meet(mask, 0); }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const uint64_t* all = cuda_emulation::Meet(mask, predicate != 0);
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) bits |= static_cast<unsigned>(all[i]) << i;
  return bits & cuda_emulation::machine->warps[cuda_emulation::machine->running->index / 32].lanes;
}
template <class T>
T atomicAdd(T* p, T v) {
  return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_relaxed);
}
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8)
    c += int{static_cast<int8_t>(a >> i)} * static_cast<int8_t>(b >> i);
  return c;
}
// Four bytes of the eight of b and a, chosen by the nibbles of `selector`.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned which = selector >> (4 * i) & 7;
    result |= static_cast<unsigned>(bytes >> (8 * which) & 255) << (8 * i);
  }
  return result;
}

// ---- the runtime's calls that kernels/cuda/runtime.cu makes: device memory is memory of the host
// --

using cudaStream_t = void*;
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
constexpr unsigned cudaStreamNonBlocking = 1, cudaHostAllocDefault = 0;
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount, pciDomainID, pciBusID, pciDeviceID;
};
struct cudaFuncAttributes {};

namespace cuda_emulation {

// What the emulated machine has. Tests change it.
struct Host {
  int driver_version = 13000;
  cudaError_t device_count_error = cudaSuccess;
  std::vector<cudaDeviceProp> devices = {
      {"Emulated GPU", {{0x1a, 0x2b}}, size_t{1} << 30, 9, 0, 2, 0, 1, 0}};
  bool has_kernel_image = true;
  size_t memory_left = size_t{1} << 30;  // of the device that is in use
  cudaError_t next_error = cudaSuccess;  // what the next wait reports
  std::vector<int> opened;               // devices that got a context
  bool records = true;                   // false: recordings fail when they end
  int replays = 0;
};
inline Host host;

// Bytes of an allocation stand in front of it, so that freeing gives them back.
constexpr size_t kAllocationHeader = 64;

}  // namespace cuda_emulation

inline cudaError_t cudaMalloc(void** p, size_t bytes) {
  if (bytes > cuda_emulation::host.memory_left) return cudaErrorMemoryAllocation;
  constexpr size_t kHeader = cuda_emulation::kAllocationHeader;
  auto* block = static_cast<char*>(std::malloc(kHeader + bytes));
  std::memcpy(block, &bytes, sizeof(bytes));
  std::memset(block + kHeader, 0xff, bytes);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(block, kHeader);
#endif
  cuda_emulation::host.memory_left -= bytes;
  *p = block + kHeader;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  auto* block = static_cast<char*>(p) - cuda_emulation::kAllocationHeader;
  size_t bytes;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(block, cuda_emulation::kAllocationHeader);
#endif
  std::memcpy(&bytes, block, sizeof(bytes));
  cuda_emulation::host.memory_left += bytes;
  std::free(block);
  return cudaSuccess;
}
inline cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  *p = std::malloc(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* p) {
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new cuda_emulation::Stream(std::make_shared<cuda_emulation::Copies>());
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cuda_emulation::Finish(stream);
  delete static_cast<cuda_emulation::Stream*>(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  cuda_emulation::RefuseWhileRecording("a wait");
  cuda_emulation::Finish(stream);
  return std::exchange(cuda_emulation::host.next_error, cudaSuccess);
}
inline cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                     size_t width, size_t height, cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  cuda_emulation::RefuseWhileRecording("a copy");
  const auto copy = [=] {
    for (size_t r = 0; r < height; ++r) {
      std::memcpy(static_cast<char*>(to) + r * to_pitch,
                  static_cast<const char*>(from) + r * from_pitch, width);
    }
  };
  if (kind == cudaMemcpyDeviceToHost && stream != nullptr) {
    (*static_cast<cuda_emulation::Stream*>(stream))->push_back(copy);
  } else {
    cuda_emulation::Finish(stream);
    copy();
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  cuda_emulation::RefuseWhileRecording("a copy");
  cuda_emulation::Finish(stream);
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
using cudaEvent_t = cuda_emulation::Stream*;
constexpr unsigned cudaEventDisableTiming = 2;
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new cuda_emulation::Stream;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cuda_emulation::RefuseWhileRecording("an event");
  if (stream != nullptr) *event = *static_cast<cuda_emulation::Stream*>(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
  cuda_emulation::Finish(*event);
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  cuda_emulation::RefuseWhileRecording("a wait");
  cuda_emulation::Finish(*event);
  return std::exchange(cuda_emulation::host.next_error, cudaSuccess);
}
using cudaGraph_t = cuda_emulation::Recording*;
using cudaGraphExec_t = cuda_emulation::Recording*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  cuda_emulation::RefuseWhileRecording("another recording");
  cuda_emulation::recording = new cuda_emulation::Recording;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(cuda_emulation::recording, nullptr);
  if (cuda_emulation::host.records) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return cudaErrorInvalidValue;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned) {
  *made = new cuda_emulation::Recording(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t made) {
  delete made;
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t) {
  cuda_emulation::RefuseWhileRecording("a replay");
  ++cuda_emulation::host.replays;
  for (const auto& launch : *made) launch();
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(cuda_emulation::host.devices.size());
  return cuda_emulation::host.device_count_error;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = cuda_emulation::host.devices[device];
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = cuda_emulation::host.driver_version;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  cuda_emulation::host.opened.push_back(device);
  return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, F*) {
  return cuda_emulation::host.has_kernel_image ? cudaSuccess : cudaErrorNoKernelImageForDevice;
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <class F>
cudaError_t cudaFuncSetAttribute(F*, cudaFuncAttribute, int bytes) {
  return bytes <= 64 << 10 ? cudaSuccess : cudaErrorInvalidValue;  // of the smallest architecture
}
inline cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = cuda_emulation::host.memory_left;
  *total_bytes = size_t{1} << 30;
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    default:
      return error == cudaSuccess ? "no error" : "an emulated error";
  }
}
