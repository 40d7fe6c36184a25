// CudaDevice: one NVIDIA GPU as a Device. No CUDA header is needed to include this one.
//
// The CUDA runtime is linked statically and loads the driver when it is first called. So a binary with this code starts
// on a machine without a driver, and cuda_devices() says why no GPU can be used there.
//
// Threads: as Device. check() [any]. Every function selects its GPU for the calling thread.
// Invariants:
//  - The device is lost at the first CUDA error of an enqueuing function or a query: status() keeps the error, every
//    later enqueuing function returns it, reached() answers true. An error of a set-up function is thrown; the device
//    stays usable.
//  - Destructors ignore errors: at exit the driver may be gone before the last buffer is.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"

namespace camd::device {

// What cuda_devices() found.
struct CudaDevices {
  int count = 0;
  std::string reason;  // why count is 0, with what to do about it; empty otherwise
};
// [any] [blocks] on first use (loads the driver). Never throws.
[[nodiscard]] CudaDevices cuda_devices() noexcept;

// For tests: called before each CUDA call of the device, with the call's name. If it does not return 0, the call is not
// made, and what it returned (a cudaError_t) is taken for the call's error. Must not throw.
using CudaFaultHook = int (*)(const char* call, void* argument) noexcept;

struct CudaDeviceOptions {
  // For so long synchronize(Event | Fence) polls without sleeping; then it sleeps between two polls. A wake-up costs
  // about 16 us and a frame's work takes a few hundred, so for this long spinning gives the lower latency.
  Duration spin = std::chrono::microseconds(400);
  CudaFaultHook fault = nullptr;
  void* fault_argument = nullptr;
};

// What this GPU gives to kernels.
struct CudaLimits {
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;  // the most shared memory that a kernel's block may ask for
  std::size_t shared_bytes_per_multiprocessor = 0;
  bool tf32 = false;                // tensor cores take f32 (sm_80 and later)
  bool warpgroup_products = false;  // tensor cores read both matrices from shared memory by themselves (sm_90 alone)
};

class VulkanVideo;

// Memory of another interface's (Vulkan) as CUDA sees it. Given back by its destructor, which waits for the GPU.
class ImportedMemory {
 public:
  virtual ~ImportedMemory() = default;
  [[nodiscard]] virtual unsigned long long address() const noexcept = 0;  // on the device
};

using CudaUuid = std::array<std::byte, 16>;  // the GPU's name, which other interfaces give it as well

class CudaDevice : public Device {
 public:
  [[nodiscard]] virtual CudaUuid uuid() const noexcept = 0;
  // [blocks] Takes the descriptor, of opaque memory of this GPU. Null: CUDA refuses it.
  [[nodiscard]] virtual std::unique_ptr<ImportedMemory> import_memory(int descriptor, std::size_t size_bytes) = 0;
  [[nodiscard]] virtual const CudaLimits& limits() const noexcept = 0;
  // [blocks] at the first call, some 0.2 s. The GPU's decoders by another way; null: not here. The device's.
  [[nodiscard]] virtual VulkanVideo* vulkan_video() = 0;
  // Enqueues the filling of device memory with zeros; does not synchronise. [no-alloc]
  virtual Status clear(void* data, std::size_t size_bytes, StreamRef stream) = 0;
  // Enqueues; does not synchronise. [no-alloc] Outside of a capture it is record(). Inside, the event becomes a node of
  // the graph: it is recorded at every launch, and streams outside of the graph may wait for it.
  virtual Status record_for_outside(Event& event, StreamRef stream) = 0;
  // For code that makes CUDA calls itself (the engine): an error of such a call becomes the device's failure. Returns
  // ok for success, else status(). `cuda_error` is a cudaError_t, 0 is success; `call` names the call in the message.
  virtual Status check(int cuda_error, const char* call) noexcept = 0;
  // Selects this GPU for the calling thread, for code that makes CUDA calls itself.
  virtual Status select() noexcept = 0;
  // True while `stream` is inside a capture.
  [[nodiscard]] virtual bool capturing(StreamRef stream) noexcept = 0;
};

// [setup] [blocks] Opens GPU `index` and makes its context (some 100 ms). Throws Error(kDevice) with one line.
[[nodiscard]] std::unique_ptr<CudaDevice> make_cuda_device(int index, const CudaDeviceOptions& options = {});

}  // namespace camd::device
