// Which device a word of the configuration means.
#include "device/make_device.hpp"

#include <charconv>
#include <cstdlib>
#include <string>

#include "base/log.hpp"
#include "device/host_device.hpp"
#if defined(CAMD_HAVE_CUDA)
#include "device/cuda/cuda_device.hpp"
#endif

namespace camd::device {
namespace {

using base::Error;
using base::ErrorKind;

constexpr std::string_view kCudaPrefix = "cuda:";

std::unique_ptr<Device> make_gpu(int index) {
#if defined(CAMD_HAVE_CUDA)
  std::unique_ptr<Device> device = make_cuda_device(index);
  const DeviceInfo& info = device->info();
  base::log().info("device: GPU {}, {} (compute capability {}.{}, {}, {} copy engines{})", info.index, info.name,
                   info.compute_major, info.compute_minor, info.driver, info.copy_engines, shared_memory_words(info));
  return device;
#else
  (void)index;
  throw Error(ErrorKind::kDevice, count_gpus().reason);
#endif
}

int parse_index(std::string_view spec) {
  const std::string_view digits = spec.substr(kCudaPrefix.size());
  int index = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size() || index < 0) {
    throw Error(ErrorKind::kConfig, "device: '" + std::string(spec) + "': a GPU is named cuda:N with N from 0 on");
  }
  return index;
}

}  // namespace

GpuCount count_gpus() {
#if defined(CAMD_HAVE_CUDA)
  CudaDevices found = cuda_devices();
  return GpuCount{found.count, std::move(found.reason)};
#else
  return GpuCount{0, "this camd was built without CUDA: build it where nvcc 12 or later is installed"};
#endif
}

std::string_view shared_memory_words(const DeviceInfo& info) noexcept {
  if (!info.integrated) return "";
  return info.coherent ? ", shares memory with the CPU" : ", shares memory with the CPU behind barriers";
}

std::string word_of(const DeviceInfo& info) {
  return info.kind == DeviceKind::kHost ? "host" : std::string(kCudaPrefix) + std::to_string(info.index);
}

std::vector<std::string> all_devices() {
  std::vector<std::string> words;
  for (int i = 0; i < count_gpus().count; ++i) words.push_back(std::string(kCudaPrefix) + std::to_string(i));
  if (words.empty()) words.emplace_back("auto");
  return words;
}

// A stream's work waits for what others have in its queue. Beside hundreds of decoders' streams, frames waited for each
// other there. More queues than these bring nothing (docs/experiments.md).
void prepare_for_many_streams() noexcept {
  constexpr int kKeepWhatTheUserSays = 0;
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", kKeepWhatTheUserSays);
}

std::unique_ptr<Device> make_device(std::string_view spec) {
  if (spec == "host") {
    base::log().info("device: host, as configured");
    return make_host_device(base::system_clock());
  }
  if (spec == "auto") {
    const GpuCount gpus = count_gpus();
    if (gpus.count > 0) return make_gpu(0);
    base::log().info("device: host, because {}", gpus.reason);
    return make_host_device(base::system_clock());
  }
  if (spec == "cuda") return make_gpu(0);
  if (spec.substr(0, kCudaPrefix.size()) == kCudaPrefix) return make_gpu(parse_index(spec));
  throw Error(ErrorKind::kConfig, "device: '" + std::string(spec) + "' is none of auto, cuda, cuda:N, host");
}

}  // namespace camd::device
