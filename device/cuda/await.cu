// One thread polls the word. What it has written is made visible (__threadfence()) before the next kernel may start.
#include "device/cuda/await.hpp"

#include <cuda_runtime.h>

namespace camd::device {
namespace {

__global__ void __launch_bounds__(32, 1) await_kernel(volatile std::uint64_t* word, std::uint64_t* to) {
  if (threadIdx.x == 0) {
    std::uint64_t value = *word;
    while (value == 0) value = *word;
    *word = 0;
    if (to != nullptr) *to = value;
    __threadfence();
  }
  __syncwarp();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace

int await_word(std::uint64_t* word, std::uint64_t* to, void* stream) {
  await_kernel<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(word, to);
  return cudaGetLastError();
}

}  // namespace camd::device
