// The kernel behind CudaDevice's await(). No CUDA header is needed to include this one.
//
// Threads: as Device::await().
#pragma once

#include <cstdint>

namespace camd::device {

// Enqueues one warp; does not synchronise. [no-alloc] One thread reads `*word`, in device memory, until it is not 0,
// writes what it has read to `*to` unless that is null, and sets the word back to 0. Only then may the next kernel
// start, on compute capability 9.0 and later before this one has ended (programmatic dependent launch). `stream` is a
// cudaStream_t. Returns a cudaError_t.
int await_word(std::uint64_t* word, std::uint64_t* to, void* stream);

}  // namespace camd::device
