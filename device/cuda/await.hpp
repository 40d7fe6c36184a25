// The kernel behind CudaDevice's await(). No CUDA header is needed to include this one.
#pragma once

namespace camd::device {

// Enqueues one warp that reads `*word`, in device memory, until it is not 0, and sets it to 0. A kernel that is
// launched behind it may start early (programmatic dependent launch) and then waits for its end alone. [no-alloc]
// `stream` is a cudaStream_t; the answer a cudaError_t.
int await_word(unsigned* word, void* stream);

}  // namespace camd::device
