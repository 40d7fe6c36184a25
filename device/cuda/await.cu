// One thread polls the word. Its write of 0 is made visible (__threadfence()) before the next kernel may start.
#include "device/cuda/await.hpp"

#include <cuda_runtime.h>

namespace camd::device {
namespace {

__global__ void __launch_bounds__(32, 1) await_kernel(volatile unsigned* word) {
  if (threadIdx.x == 0) {
    while (*word == 0) {
    }
    *word = 0;
    __threadfence();
  }
  __syncwarp();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace

int await_word(unsigned* word, void* stream) {
  await_kernel<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(word);
  return cudaGetLastError();
}

}  // namespace camd::device
