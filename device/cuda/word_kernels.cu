// One thread does the work. What it has written is made visible (__threadfence()) before the next kernel may start.
#include "device/cuda/word_kernels.hpp"

#include <cuda_runtime.h>

namespace camd::device {
namespace {

__device__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__global__ void __launch_bounds__(32, 1) await_kernel(volatile unsigned* word) {
  if (threadIdx.x == 0) {
    while (*word == 0) {
    }
    *word = 0;
    __threadfence();
  }
  __syncwarp();
  let_next_kernel_start();
}

__global__ void __launch_bounds__(32, 1)
    copy_word_kernel(volatile std::uint64_t* to, const volatile std::uint64_t* from) {
  if (threadIdx.x == 0) {
    *to = *from;
    __threadfence();
  }
  __syncwarp();
  let_next_kernel_start();
}

}  // namespace

int await_word(unsigned* word, void* stream) {
  await_kernel<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(word);
  return cudaGetLastError();
}

int copy_word(std::uint64_t* to, const std::uint64_t* from, void* stream) {
  copy_word_kernel<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(to, from);
  return cudaGetLastError();
}

}  // namespace camd::device
