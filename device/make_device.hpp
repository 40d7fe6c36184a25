// Chooses the device that frames are computed on.
//
// Threads: [setup].
#pragma once

#include <memory>
#include <string_view>

#include "device/device.hpp"

namespace camd::device {

// [setup] [blocks] `spec` as in the configuration: "auto" (the first GPU, else the host), "cuda" (the first GPU),
// "cuda:N", "host". Logs the choice and, for "auto" on the host, why no GPU is used.
// Throws Error(kDevice) when the device cannot be used, Error(kConfig) for another word.
[[nodiscard]] std::unique_ptr<Device> make_device(std::string_view spec);

// GPUs that this build can use; 0 with `reason` set when there is none (no driver, built without CUDA, ...).
struct GpuCount {
  int count = 0;
  std::string reason;
};
[[nodiscard]] GpuCount count_gpus();

}  // namespace camd::device
