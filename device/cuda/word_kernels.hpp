// The kernels behind CudaDevice's await() and copy_word(). No CUDA header is needed to include this one.
//
// Threads: as Device::await() and Device::copy_word().
#pragma once

#include <cstdint>

namespace camd::device {

// Both enqueue one warp and do not synchronise. [no-alloc] `stream` is a cudaStream_t. They return a cudaError_t. On
// compute capability 9.0 and later the next kernel may start before this one has ended (programmatic dependent launch).

// One thread reads `*word`, in device memory, until it is not 0, and sets it back to 0. Only then may the next kernel
// start.
int await_word(unsigned* word, void* stream);

// `from` may be mapped host memory, of which it is the device's address. `to` lies in device memory. The next kernel
// may start when `*to` is written.
int copy_word(std::uint64_t* to, const std::uint64_t* from, void* stream);

}  // namespace camd::device
