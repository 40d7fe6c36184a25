// launch(): starts a kernel, on the GPU or under emulation. No other code has a launch configuration.
#pragma once

#include <algorithm>

#include "infer/cuda/kernels/launch.hpp"
#include "infer/cuda/kernels/primitives.cuh"

namespace camd::infer::cuda {

#if defined(CAMD_CUDA_EMULATION)

template <typename... Parameters>
int allow_shared(void (*)(Parameters...), std::size_t) {
  return 0;
}

template <typename... Parameters, typename... Arguments>
int launch(void (*kernel)(Parameters...), dim3 grid, int threads, std::size_t shared_bytes,
           const LaunchContext& context, Arguments... arguments) {
  if (context.stream != nullptr) {
    LaunchContext at_once = context;
    at_once.stream = nullptr;
    return static_cast<device::EmulatedStream*>(context.stream)->enqueue([=] {
      (void)launch(kernel, grid, threads, shared_bytes, at_once, arguments...);
    });
  }
  auto& m = emulation::machine();
  m.block_dim = emulation::Index{static_cast<unsigned>(threads), 1, 1};
  m.grid_dim = emulation::Index{grid.x, grid.y, grid.z};
  m.shared.assign((shared_bytes + 15) / 16, uint4{0x7FFF7FFF, 0x7FFF7FFF, 0x7FFF7FFF, 0x7FFF7FFF});  // NaNs
  m.body = [=] { kernel(arguments...); };
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        m.block = emulation::Index{x, y, z};
        emulation::run_block(static_cast<unsigned>(threads));
      }
    }
  }
  return 0;
}

#else

// [setup] Allows blocks of the kernel so much shared memory on this GPU; the driver may allocate for that. Never lowers
// what is allowed: another plan may need more. Does not enqueue. Returns a cudaError_t.
template <typename... Parameters>
int allow_shared(void (*kernel)(Parameters...), std::size_t shared_bytes) {
  // A multiprocessor divides one memory into cache and shared memory as its kernel prefers, and must be idle to divide
  // it anew. Kernels run beside each other when they all prefer the same division.
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
      error != cudaSuccess) {
    return error;
  }
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  if (shared_bytes <= kWithoutAsking) return 0;
  cudaFuncAttributes now{};
  const cudaError_t error = cudaFuncGetAttributes(&now, kernel);
  if (error != cudaSuccess || static_cast<std::size_t>(now.maxDynamicSharedSizeBytes) >= shared_bytes) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
}

template <typename... Parameters, typename... Arguments>
int launch(void (*kernel)(Parameters...), dim3 grid, int threads, std::size_t shared_bytes,
           const LaunchContext& context, Arguments... arguments) {
  const int blocks = static_cast<int>(grid.x * grid.y * grid.z);
  if (shared_bytes != 0 && blocks <= context.spread_over && 2 * blocks > context.spread_over) {
    shared_bytes = std::max(shared_bytes, context.spread_bytes);
  }
  if (context.prepare) {
    if (const int error = allow_shared(kernel, shared_bytes); error != 0) return error;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads), 1, 1);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(context.stream);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = context.overlap_previous ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

#endif

}  // namespace camd::infer::cuda
