// CudaDevice: one NVIDIA GPU as a Device. No CUDA header is needed to include this one.
//
// The CUDA runtime is linked statically and loads the driver when it is first asked: a binary with this code starts
// on a machine without any driver, and cuda_devices() says there why no GPU can be used.
//
// Threads: as Device. check() [any]. Every function selects its GPU for the calling thread itself.
// Invariants:
//  - The first CUDA error of an enqueuing or asking function ends the device: status() keeps it, every later
//    enqueuing function returns it, reached() answers true. Errors of set-up are thrown and end nothing.
//  - Destructors ignore errors: at exit the driver may be gone before the last buffer.
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

// For tests: called before each CUDA call of the device with the call's name; another answer than 0 is taken for the
// call's error (a cudaError_t) and the call is not made. Must not throw.
using CudaFaultHook = int (*)(const char* call, void* argument) noexcept;

struct CudaDeviceOptions {
  // How long synchronize(Event) asks again and again before it starts to sleep between two questions. A wake-up
  // costs about 16 us, a frame's work a few hundred: up to here spinning is the lower latency.
  Duration spin = std::chrono::microseconds(400);
  CudaFaultHook fault = nullptr;
  void* fault_argument = nullptr;
};

// What kernels can count on.
struct CudaLimits {
  int multiprocessors = 0;
  std::size_t shared_bytes_per_block = 0;  // of shared memory, for a kernel that asks for it
  std::size_t shared_bytes_per_multiprocessor = 0;
};

class CudaDevice : public Device {
 public:
  [[nodiscard]] virtual const CudaLimits& limits() const noexcept = 0;
  // Enqueues the filling of device memory with zeros; does not synchronise. [no-alloc]
  virtual Status clear(void* data, std::size_t size_bytes, StreamRef stream) = 0;
  // Does not synchronise. [no-alloc] As record() outside of a capture; inside, it happens at every launch of the graph,
  // and streams outside may wait for it.
  virtual Status record_for_outside(Event& event, StreamRef stream) = 0;
  // Folds a CUDA error of somebody who launches on this device (the engine) into the device's status.
  // `cuda_error` is a cudaError_t, 0 is success and costs nothing; `call` is a literal.
  virtual Status check(int cuda_error, const char* call) noexcept = 0;
  // Selects this GPU for the calling thread, for callers that use the CUDA runtime themselves.
  virtual Status select() noexcept = 0;
  // True while `stream` is inside a capture.
  [[nodiscard]] virtual bool capturing(StreamRef stream) noexcept = 0;
};

// [setup] [blocks] Opens GPU `index` and makes its context (some 100 ms). Throws Error(kDevice) in one line.
[[nodiscard]] std::unique_ptr<CudaDevice> make_cuda_device(int index, const CudaDeviceOptions& options = {});

}  // namespace camd::device
