// EmulatedStream: what StreamRef::native() points to on an emulated GPU. Emulated kernels
// (infer/cuda/kernels/emulation.cuh) that are launched with one run in its order; those launched with none run at once.
//
// Threads: as Device. Not linked into camd.
#pragma once

#include <functional>

namespace camd::device {

class EmulatedStream {
 public:
  virtual ~EmulatedStream() = default;
  // Enqueues a kernel; does not synchronise. Returns a cudaError_t.
  virtual int enqueue(std::function<void()> kernel) = 0;
};

}  // namespace camd::device
