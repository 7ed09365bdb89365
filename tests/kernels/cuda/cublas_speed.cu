// How fast cuBLAS multiplies what device_check.cc multiplies: what the products of many rows are
// compared with. Prints JSON. Built by scripts/gpu_check.sh where cuBLAS is at hand.
#include <cublas_v2.h>

#include <cstdio>
#include <cstdlib>

namespace {

void Check(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "cublas_speed: %s failed\n", what);
  std::exit(1);
}

struct Kind {
  const char* name;
  cudaDataType_t in, out;
  cublasComputeType_t compute;
  int in_bytes;
};
constexpr Kind kKinds[] = {{"f16", CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 2},
                           {"int8", CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, 1}};
constexpr int kCols = 4096, kOuts = 8192, kRows = 512, kTurns = 40;

double SecondsOf(cublasHandle_t handle, const Kind& kind) {
  void *weight, *x, *out;
  const size_t cols = kCols;
  Check(cudaMalloc(&weight, cols * kOuts * kind.in_bytes) == cudaSuccess &&
            cudaMalloc(&x, cols * kRows * kind.in_bytes) == cudaSuccess &&
            cudaMalloc(&out, size_t{kOuts} * kRows * 4) == cudaSuccess,
        "memory");
  cudaMemset(weight, 0, cols * kOuts * kind.in_bytes);
  cudaMemset(x, 0, cols * kRows * kind.in_bytes);
  const float one = 1, zero = 0;
  const int one_int = 1, zero_int = 0;
  const bool ints = kind.compute == CUBLAS_COMPUTE_32I;
  const void* alpha = ints ? static_cast<const void*>(&one_int) : &one;
  const void* beta = ints ? static_cast<const void*>(&zero_int) : &zero;
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  for (int i = -2; i < kTurns; ++i) {
    if (i == 0) cudaEventRecord(begin);
    Check(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, kOuts, kRows, kCols, alpha, weight,
                       kind.in, kCols, x, kind.in, kCols, beta, out, kind.out, kOuts, kind.compute,
                       CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS,
          kind.name);
  }
  cudaEventRecord(end);
  Check(cudaEventSynchronize(end) == cudaSuccess, "a product");
  float milliseconds = 0;
  cudaEventElapsedTime(&milliseconds, begin, end);
  for (void* p : {weight, x, out}) cudaFree(p);
  return milliseconds * 1e-3 / kTurns;
}

}  // namespace

int main() {
  cublasHandle_t handle;
  Check(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS, "cuBLAS");
  std::printf("{");
  for (const Kind& kind : kKinds) {
    const double operations = 2.0 * kCols * kOuts * kRows;
    std::printf("%s\"%s_tera_ops_per_s\": %.2f", &kind == kKinds ? "" : ", ", kind.name,
                operations / SecondsOf(handle, kind) * 1e-12);
  }
  std::printf("}\n");
}
