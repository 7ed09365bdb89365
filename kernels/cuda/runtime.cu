// The calls of CUDA's runtime that the engine needs, as functions of the table in cuda_api.h.
#include <cstdio>
#include <cstring>

#include "kernels/cuda/parts.cuh"

namespace baton::kernels {
inline namespace BATON_ISA_NAMESPACE {
namespace {

CudaError CountDevices(int* count) { return cudaGetDeviceCount(count); }

void WriteUuid(const cudaUUID_t& uuid, char (&to)[48]) {
  char* out = to + snprintf(to, sizeof(to), "GPU-");
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
    out += snprintf(out, 3, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
  }
}

CudaError DescribeDevice(int index, CudaDevice* device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) return error;
  snprintf(device->name, sizeof(device->name), "%s", properties.name);
  WriteUuid(properties.uuid, device->uuid);
  snprintf(device->bus_id, sizeof(device->bus_id), "%04x:%02x:%02x.0",
           static_cast<unsigned>(properties.pciDomainID) & 0xffff,
           static_cast<unsigned>(properties.pciBusID) & 0xff,
           static_cast<unsigned>(properties.pciDeviceID) & 0xff);
  device->major = properties.major;
  device->minor = properties.minor;
  device->multiprocessors = properties.multiProcessorCount;
  device->memory_bytes = properties.totalGlobalMem;
  return kCudaOk;
}

void Versions(int* driver, int* runtime) {
  *driver = *runtime = 0;
  cudaDriverGetVersion(driver);
  cudaRuntimeGetVersion(runtime);
}

const char* ErrorText(CudaError error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

__global__ void Probe() {}

CudaError MakeCurrent(int index) { return cudaSetDevice(index); }
CudaError OpenDevice(int index) {
  if (const cudaError_t error = cudaSetDevice(index); error != cudaSuccess) return error;
  cudaFuncAttributes attributes;  // asks for the code of this device
  return cudaFuncGetAttributes(&attributes, Probe);
}

CudaError MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t free_size = 0, total_size = 0;
  const cudaError_t error = cudaMemGetInfo(&free_size, &total_size);
  *free_bytes = free_size;
  *total_bytes = total_size;
  return error;
}

CudaError Allocate(size_t bytes, void** data) {
  const cudaError_t error = cudaMalloc(data, bytes);
  if (error != cudaSuccess) cudaGetLastError();  // it is the caller's now
  return error;
}
void Release(void* data) { cudaFree(data); }
CudaError AllocatePinned(size_t bytes, void** host) {
  const cudaError_t error = cudaHostAlloc(host, bytes, cudaHostAllocDefault);
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}
void ReleasePinned(void* host) { cudaFreeHost(host); }

CudaError CreateStream(CudaStream* stream) {
  cudaStream_t created;
  const cudaError_t error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
  *stream = created;
  return error;
}
void DestroyStream(CudaStream stream) { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

CudaError Upload(void* to, const void* host, size_t bytes, CudaStream stream) {
  return cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice,
                         static_cast<cudaStream_t>(stream));
}
CudaError UploadRows(CudaMatrix to, const float* host, CudaStream stream) {
  const size_t width = sizeof(float) * static_cast<size_t>(to.cols);
  return cudaMemcpy2DAsync(to.data, sizeof(float) * static_cast<size_t>(to.stride), host, width,
                           width, static_cast<size_t>(to.rows), cudaMemcpyHostToDevice,
                           static_cast<cudaStream_t>(stream));
}
CudaError DownloadRows(CudaMatrix from, float* host, CudaStream stream) {
  const size_t width = sizeof(float) * static_cast<size_t>(from.cols);
  return cudaMemcpy2DAsync(host, width, from.data, sizeof(float) * static_cast<size_t>(from.stride),
                           width, static_cast<size_t>(from.rows), cudaMemcpyDeviceToHost,
                           static_cast<cudaStream_t>(stream));
}
CudaError Wait(CudaStream stream) {
  const cudaError_t waited = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
  const cudaError_t launched = cudaGetLastError();
  return waited != cudaSuccess ? waited : launched;
}

CudaError CreateEvent(CudaEvent* event) {
  cudaEvent_t created = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&created, cudaEventDisableTiming);
  *event = created;
  return error;
}
void DestroyEvent(CudaEvent event) { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }
CudaError RecordEvent(CudaEvent event, CudaStream stream) {
  return cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
}
CudaError AwaitEvent(CudaStream stream, CudaEvent event) {
  return cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0);
}
CudaError WaitEvent(CudaEvent event) {
  const cudaError_t waited = cudaEventSynchronize(static_cast<cudaEvent_t>(event));
  const cudaError_t launched = cudaGetLastError();
  return waited != cudaSuccess ? waited : launched;
}

// Relaxed: what other threads do meanwhile, or an allocation here, doesn't end it.
CudaError BeginRecording(CudaStream stream) {
  const cudaError_t error =
      cudaStreamBeginCapture(static_cast<cudaStream_t>(stream), cudaStreamCaptureModeRelaxed);
  if (error != cudaSuccess) cudaGetLastError();  // the work can still be queued as it is
  return error;
}
CudaError EndRecording(CudaStream stream, CudaRecording* recording) {
  *recording = nullptr;
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph);
  if (error == cudaSuccess) {
    cudaGraphExec_t made = nullptr;
    error = cudaGraphInstantiate(&made, graph, 0);
    *recording = made;
    cudaGraphDestroy(graph);
  }
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}
CudaError Replay(CudaRecording recording, CudaStream stream) {
  return cudaGraphLaunch(static_cast<cudaGraphExec_t>(recording),
                         static_cast<cudaStream_t>(stream));
}
void ReleaseRecording(CudaRecording recording) {
  cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(recording));
}

}  // namespace

void FillCudaRuntime(CudaApi& api) {
  api.count_devices = CountDevices;
  api.describe_device = DescribeDevice;
  api.versions = Versions;
  api.error_text = ErrorText;
  api.architectures = BATON_CUDA_ARCHITECTURES;
  api.open_device = OpenDevice;
  api.make_current = MakeCurrent;
  api.memory_info = MemoryInfo;
  api.allocate = Allocate;
  api.release = Release;
  api.allocate_pinned = AllocatePinned;
  api.release_pinned = ReleasePinned;
  api.create_stream = CreateStream;
  api.destroy_stream = DestroyStream;
  api.upload = Upload;
  api.upload_rows = UploadRows;
  api.download_rows = DownloadRows;
  api.wait = Wait;
  api.create_event = CreateEvent;
  api.destroy_event = DestroyEvent;
  api.record_event = RecordEvent;
  api.await_event = AwaitEvent;
  api.wait_event = WaitEvent;
  api.begin_recording = BeginRecording;
  api.end_recording = EndRecording;
  api.replay = Replay;
  api.release_recording = ReleaseRecording;
}

}  // namespace BATON_ISA_NAMESPACE

void FillCuda(CudaApi& api) {
  FillCudaRuntime(api);
  FillCudaMatMul(api);
  FillCudaRows(api);
  FillCudaAttention(api);
  FillCudaExperts(api);
  FillCudaLogits(api);
}

}  // namespace baton::kernels
