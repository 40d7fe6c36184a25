// Which GPUs there are, or why there are none.
#include <cuda_runtime_api.h>

#include <string>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/driver_functions.hpp"

namespace camd::device {
namespace {

std::string no_device_reason(cudaError_t error) {
  const int driver = driver_version();
  const std::string needed = version_text(CUDART_VERSION / 1000 * 1000);
  if (driver == 0) return "no NVIDIA driver is loaded: install one that supports CUDA " + needed + " or later";
  switch (error) {
    case cudaErrorInsufficientDriver:
      return "the NVIDIA driver supports CUDA " + version_text(driver) + ", camd needs " + needed +
             ": update the driver";
    case cudaErrorNoDevice: return "the NVIDIA driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES";
    default: return describe(error);
  }
}

}  // namespace

CudaDevices cuda_devices() noexcept {
  CudaDevices found;
  const cudaError_t error = cudaGetDeviceCount(&found.count);
  if (error == cudaSuccess && found.count > 0) return found;
  (void)cudaGetLastError();
  found.count = 0;
  found.reason = no_device_reason(error == cudaSuccess ? cudaErrorNoDevice : error);
  return found;
}

}  // namespace camd::device
