#include "engine/backend/cuda_devices.h"

#include <charconv>
#include <cstdlib>

namespace baton::engine {
namespace {

using kernels::CudaApi;
using kernels::CudaDevice;

std::string Version(int version) {  // 13020 is 13.2
  if (version == 0) return "none";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

absl::Status NoDevice(const CudaApi& cuda, std::string_view reason) {
  int driver = 0, runtime = 0;
  cuda.versions(&driver, &runtime);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return FailedPrecondition(
      "CUDA: no device was found ({}; the driver supports CUDA {}, this build needs {}{})", reason,
      Version(driver), Version(runtime),
      visible != nullptr ? fmt::format("; CUDA_VISIBLE_DEVICES is '{}'", visible) : "");
}

bool ParseInt(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices(const CudaApi& cuda) {
  int count = 0;
  if (const int error = cuda.count_devices(&count); error != kernels::kCudaOk)
    return NoDevice(cuda, cuda.error_text(error));
  if (count == 0) return NoDevice(cuda, "the list is empty");
  std::vector<CudaDevice> devices(count);
  for (int i = 0; i < count; ++i) {
    const int error = cuda.describe_device(i, &devices[i]);
    if (error == kernels::kCudaOk) continue;
    return FailedPrecondition("cuda:{}: {}", i, cuda.error_text(error));
  }
  return devices;
}

bool HasKernelsFor(std::string_view architectures, int major, int minor) {
  const int wanted = major * 10 + minor;
  int architecture = 0;
  while (!architectures.empty()) {
    const size_t end = architectures.find(',');
    if (!ParseInt(architectures.substr(0, end), architecture)) return false;
    // Code runs on later minor versions of its own major one.
    if (architecture / 10 == major && architecture <= wanted) return true;
    architectures = end == std::string_view::npos ? "" : architectures.substr(end + 1);
  }
  return architecture > 0 && architecture <= wanted;
}

absl::Status CheckKernels(const CudaApi& cuda, const CudaDevice& device) {
  if (HasKernelsFor(cuda.architectures, device.major, device.minor)) return absl::OkStatus();
  return FailedPrecondition(
      "{}: compute capability {}.{}, this build has kernels for {}. Build with "
      "-DCMAKE_CUDA_ARCHITECTURES={}{}",
      device.name, device.major, device.minor, cuda.architectures, device.major, device.minor);
}

std::string Describe(int index, const CudaDevice& device) {
  return fmt::format("cuda:{}  {}, compute capability {}.{}, {}, {}", index, device.name,
                     device.major, device.minor, device.bus_id, device.uuid);
}

absl::StatusOr<int> FindCudaDevice(std::string_view wanted,
                                   const std::vector<CudaDevice>& devices) {
  constexpr std::string_view kPrefix = "cuda:";
  if (wanted == "cuda") return 0;
  const std::string_view name =
      wanted.starts_with(kPrefix) ? wanted.substr(kPrefix.size()) : wanted;
  int index = -1;
  if (name.starts_with("GPU-")) {
    for (size_t i = 0; i < devices.size(); ++i) {
      if (!std::string_view(devices[i].uuid).starts_with(name)) continue;
      if (index >= 0)
        return InvalidArgument("device '{}': fits cuda:{} and cuda:{}", wanted, index, i);
      index = static_cast<int>(i);
    }
  } else if (ParseInt(name, index) && index >= static_cast<int>(devices.size())) {
    index = -1;
  }
  if (index >= 0) return index;
  std::string there;
  for (size_t i = 0; i < devices.size(); ++i)
    there += "\n  " + Describe(static_cast<int>(i), devices[i]);
  return InvalidArgument("device '{}': there are{}", wanted, there);
}

}  // namespace baton::engine
