// Functions of NVIDIA's driver that the runtime does not offer, asked for by name, and its versions and errors as
// texts. Private to device/cuda.
//
// Threads: [any]. Nothing is enqueued; current_context() is about the calling thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace camd::device {

inline std::string describe(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

inline std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The API version of the driver, 0 when there is none.
inline int driver_version() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) version = 0;
  return version;
}

// A function of the driver, which is not linked; null where it has none of that name.
inline void* driver_function(const char* name, [[maybe_unused]] unsigned version) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return found;
  (void)cudaGetLastError();
  return nullptr;
}

using WriteValue = int (*)(cudaStream_t stream, unsigned long long address, std::uint64_t value, unsigned flags);
inline WriteValue find_write_value() noexcept {
  constexpr unsigned kVersion = 11070;
  return reinterpret_cast<WriteValue>(driver_function("cuStreamWriteValue64", kVersion));
}

// The runtime's context of this thread, which is the GPU's primary one.
inline void* current_context() noexcept {
  using GetCurrent = int (*)(void**);
  constexpr unsigned kVersion = 4000;
  const auto get = reinterpret_cast<GetCurrent>(driver_function("cuCtxGetCurrent", kVersion));
  void* context = nullptr;
  return get != nullptr && get(&context) == 0 ? context : nullptr;
}

}  // namespace camd::device
