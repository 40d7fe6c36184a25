// Makes the device that the configuration names.
//
// Threads: make_device(), prepare_for_many_streams() [setup]; count_gpus() [any].
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.hpp"

namespace camd::device {

// [setup] GPUs shall have more queues, so that fewer streams share one. Each of the eight more takes some 14 MiB of
// host memory. The driver asks for that once: before anything else of this header, and while no other thread reads the
// environment. What CUDA_DEVICE_MAX_CONNECTIONS says already stays.
void prepare_for_many_streams() noexcept;

// [setup] [blocks] `spec` as in the configuration: "auto" (the first GPU, else the host), "cuda" (the first GPU),
// "cuda:N", "host". Logs the choice and, for "auto" on the host, why no GPU is used.
// Throws Error(kDevice) when the device cannot be used, Error(kConfig) for another word.
[[nodiscard]] std::unique_ptr<Device> make_device(std::string_view spec);

// GPUs that this build can use. Where there is none, count is 0 and `reason` says why (no driver, built without CUDA).
struct GpuCount {
  int count = 0;
  std::string reason;
};
// [any] [blocks] on first use (loads the driver). Does not throw.
[[nodiscard]] GpuCount count_gpus();

// [any] For a line about a device: ", shares memory with the CPU", and whether that takes barriers; "" where it does
// not.
[[nodiscard]] std::string_view shared_memory_words(const DeviceInfo& info) noexcept;
// [any] The word that make_device() takes for this device: "host", "cuda:1".
[[nodiscard]] std::string word_of(const DeviceInfo& info);
// [any] [blocks] as count_gpus(). The words of all GPUs, "cuda:0" and so on; where there is none, "auto".
[[nodiscard]] std::vector<std::string> all_devices();

}  // namespace camd::device
