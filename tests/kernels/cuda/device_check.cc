// A program of kernels/ alone, for a machine with a GPU and little else (scripts/gpu_check.sh):
// holds CUDA's products to the scalar CPU's bits on the device itself, and says how fast they are.
// Prints JSON. Compiled for the emulation it is a test of itself.
//
//   device_check [quick]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/device_layout.h"
#include "tests/support/random_blocks.h"

namespace baton::kernels {

#ifdef BATON_CHECK_EMULATED
void FillCudaEmulated(CudaApi& api);
#define FillCuda FillCudaEmulated
#endif

namespace {

struct Device {
  CudaApi api;
  CudaStream stream = nullptr;

  void Check(CudaError error, const char* where) const {
    if (error == kCudaOk) return;
    std::fprintf(stderr, "device_check: %s: %s\n", where, api.error_text(error));
    std::exit(1);
  }
  template <class T>
  T* Allocate(size_t count) const {
    void* data = nullptr;
    Check(api.allocate(count * sizeof(T) + 16, &data), "memory");
    return static_cast<T*>(data);
  }
  template <class T>
  T* Upload(const std::vector<T>& host) const {
    T* data = Allocate<T>(host.size());
    Check(api.upload(data, host.data(), host.size() * sizeof(T), stream), "upload");
    return data;
  }
  void Wait() const { Check(api.wait(stream), "kernels"); }
};

// One product, on the device and its parts on the host.
struct Product {
  QuantType type;
  int32_t cols, outs, rows;
  std::vector<uint8_t> weight;
  std::vector<float> x;

  Product(QuantType t, int32_t k, int32_t n, int32_t m) : type(t), cols(k), outs(n), rows(m) {
    std::mt19937 random(static_cast<uint32_t>(k + n + m));
    std::normal_distribution<float> normal;
    weight = baton::testing::RandomBlocks(type, int64_t{outs} * cols, random);
    x.resize(static_cast<size_t>(rows) * cols);
    for (float& v : x) v = normal(random);
  }
  ActivationFormat format() const { return TraitsOf(type).activation; }
  int group() const { return ActivationGroup(format()); }

  std::vector<float> OnCpu() const {
    KernelSet scalar;
    FillScalar(scalar);
    const int64_t stride = RoundedStride(cols);
    std::vector<int8_t> values(rows * stride);
    std::vector<float> scales(group() > 0 ? rows * (cols / group()) : 0);
    std::vector<int16_t> sums(rows * (cols / 16) + 1);
    for (int64_t r = 0; r < rows && group() > 0; ++r) {
      scalar.round[static_cast<int>(format())](
          &x[r * cols], cols,
          {&values[r * stride], &scales[r * (cols / group())], &sums[r * (cols / 16)], stride},
          nullptr);
    }
    std::vector<float> out(static_cast<size_t>(rows) * outs), scratch(kScratchBytes / 4);
    scalar.matmul[static_cast<int>(type)](
        {.weight = weight.data(),
         .weight_row_bytes = RowBytes(type, cols),
         .cols = cols,
         .end = outs,
         .rows = rows,
         .x = x.data(),
         .x_stride = cols,
         .rounded = {values.data(), scales.data(), sums.data(), stride},
         .out = out.data(),
         .out_stride = outs,
         .scratch = scratch.data()});
    return out;
  }
};

// The same on the device, rounding included.
class DeviceProduct {
 public:
  DeviceProduct(const Device& device, const Product& p)
      : device_(device), args_(), x_(), rounding_() {
    const int64_t row_bytes = DeviceRowBytes(p.type, p.cols);
    std::vector<uint8_t> laid_out(p.outs * row_bytes);
    for (int32_t n = 0; n < p.outs; ++n) {
      LayOutRow(p.type, p.cols, &p.weight[n * RowBytes(p.type, p.cols)], &laid_out[n * row_bytes]);
    }
    const int64_t stride = RoundedStride(p.cols);
    const size_t rows = static_cast<size_t>(p.rows), cols = static_cast<size_t>(p.cols);
    float* x = device.Upload(p.x);
    args_ = {
        .type = p.type,
        .cols = p.cols,
        .row_bytes = row_bytes,
        .targets = {{.weight = device.Upload(laid_out),
                     .outs = p.outs,
                     .out = device.Allocate<float>(rows * p.outs),
                     .out_stride = p.outs}},
        .rows = p.rows,
        .x = x,
        .x_stride = p.cols,
        .rounded = {device.Allocate<int8_t>(rows * stride), device.Allocate<float>(rows * cols),
                    device.Allocate<int16_t>(rows * cols / 16), stride}};
    x_ = {x, p.rows, p.cols, p.cols};
    rounding_ = {.format = p.format(), .rows = args_.rounded};
    rounds_ = p.group() > 0;
    device.Wait();
  }
  ~DeviceProduct() {
    for (const void* p : std::initializer_list<const void*>{
             args_.targets[0].weight, args_.x, args_.rounded.values, args_.rounded.scales,
             args_.rounded.sums, args_.targets[0].out}) {
      device_.api.release(const_cast<void*>(p));
    }
  }
  DeviceProduct(const DeviceProduct&) = delete;
  DeviceProduct& operator=(const DeviceProduct&) = delete;

  void Queue() const {
    if (rounds_) device_.api.round(x_, rounding_, device_.stream);
    device_.api.matmul(args_, device_.stream);
  }
  std::vector<float> Result() const {
    const CudaMatMulTarget& target = args_.targets[0];
    std::vector<float> out(static_cast<size_t>(args_.rows) * target.outs);
    device_.Check(device_.api.download_rows({target.out, args_.rows, target.outs, target.outs},
                                            out.data(), device_.stream),
                  "download");
    device_.Wait();
    return out;
  }

 private:
  const Device& device_;
  CudaMatMulArgs args_;
  CudaMatrix x_;
  CudaRounding rounding_;
  bool rounds_ = false;
};

// Wrong products; prints each.
int CheckBits(const Device& device) {
  int wrong = 0;
  for (uint32_t id = 0; id < kNumQuantTypes; ++id) {
    const auto type = static_cast<QuantType>(id);
    if (!device.api.has_matmul(type)) continue;
    for (const int32_t rows : {1, 2, 4, 70}) {
      const Product p(type, 1024, 77, rows);
      const DeviceProduct on_device(device, p);
      on_device.Queue();
      const std::vector<float> got = on_device.Result(), want = p.OnCpu();
      if (std::memcmp(got.data(), want.data(), want.size() * sizeof(float)) == 0) continue;
      ++wrong;
      std::fprintf(stderr, "device_check: %s, %d rows: not the CPU's bits\n", TraitsOf(type).name,
                   rows);
    }
  }
  return wrong;
}

double SecondsOf(const Device& device, const std::vector<std::unique_ptr<DeviceProduct>>& products,
                 int turns) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < turns; ++i) {
    for (const auto& product : products) product->Queue();
  }
  device.Wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return took.count() / (turns * static_cast<double>(products.size()));
}

// Decode reads other weights each time, as a model does: more of them than caches hold.
void PrintSpeed(const Device& device, QuantType type, int32_t rows, bool last) {
  constexpr int32_t kCols = 4096, kOuts = 8192;
  const Product p(type, kCols, kOuts, rows);
  std::vector<std::unique_ptr<DeviceProduct>> products;
  for (int i = 0; i < (rows == 1 ? 16 : 1); ++i)
    products.push_back(std::make_unique<DeviceProduct>(device, p));
  SecondsOf(device, products, 2);
  const double seconds = SecondsOf(device, products, rows == 1 ? 20 : 40);
  const double bytes = static_cast<double>(p.weight.size());
  std::printf(
      "    {\"type\": \"%s\", \"rows\": %d, \"microseconds\": %.2f, \"weight_gb_per_s\": "
      "%.1f, \"tera_ops_per_s\": %.2f}%s\n",
      TraitsOf(type).name, rows, seconds * 1e6, bytes / seconds * 1e-9,
      2.0 * rows * kCols * kOuts / seconds * 1e-12, last ? "" : ",");
}

int Run(bool quick) {
  Device device;
  FillCuda(device.api);
  CudaDevice info;
  int count = 0, driver = 0, runtime = 0;
  device.Check(device.api.count_devices(&count), "devices");
  device.Check(device.api.describe_device(0, &info), "device 0");
  device.Check(device.api.open_device(0), "device 0");
  device.Check(device.api.create_stream(&device.stream), "stream");
  device.api.versions(&driver, &runtime);
  const int wrong = CheckBits(device);
  std::printf(
      "{\n  \"device\": \"%s\", \"compute_capability\": \"%d.%d\", \"driver\": %d, "
      "\"runtime\": %d,\n  \"products_that_differ_from_the_cpu\": %d,\n  \"speed\": [\n",
      info.name, info.major, info.minor, driver, runtime, wrong);
  constexpr QuantType kTimed[] = {QuantType::kQ4_0, QuantType::kQ8_0, QuantType::kQ4_K,
                                  QuantType::kQ5_K, QuantType::kQ6_K, QuantType::kMXFP4,
                                  QuantType::kF16,  QuantType::kBF16};
  for (const QuantType type : kTimed) {
    if (quick) break;
    PrintSpeed(device, type, 1, false);
    PrintSpeed(device, type, 512, type == kTimed[std::size(kTimed) - 1]);
  }
  std::printf("  ]\n}\n");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace baton::kernels

int main(int argc, char** argv) {
  return baton::kernels::Run(argc > 1 && std::strcmp(argv[1], "quick") == 0);
}
