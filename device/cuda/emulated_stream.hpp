// What StreamRef::native() points to where a GPU is emulated: kernels under emulation (infer/cuda/emulation.cuh) run in
// a stream's order with it, and at once without a stream.
//
// Threads: as Device. Not linked into camd.
#pragma once

#include <functional>

namespace camd::device {

class EmulatedStream {
 public:
  virtual ~EmulatedStream() = default;
  // Enqueues a kernel; a cudaError_t.
  virtual int enqueue(std::function<void()> kernel) = 0;
};

}  // namespace camd::device
