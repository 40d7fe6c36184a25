#include "tests/pipeline/cuda_watch.hpp"

#include <array>
#include <atomic>

namespace {

enum class Kind : std::uint8_t { kAllocates, kWaits, kLaunches };

constexpr std::size_t kNames = 16;
std::atomic<bool> watching{false};
std::atomic<std::uint64_t> allocating{0};
std::atomic<std::uint64_t> waiting{0};
std::atomic<std::uint64_t> launches{0};
std::atomic<std::size_t> name_count{0};
std::array<const char*, kNames> names{};

void count(Kind kind, const char* name) noexcept {
  if (!watching.load(std::memory_order_relaxed)) return;
  if (kind == Kind::kLaunches) {
    ++launches;
    return;
  }
  ++(kind == Kind::kWaits ? waiting : allocating);
  const std::size_t place = name_count.fetch_add(1);
  if (place < kNames) names[place] = name;
}

}  // namespace

// The linker sends calls of NAME to __wrap_NAME, and those of __real_NAME to the runtime. CUDA's headers belong to the
// rooms that use it: here its C functions have their shape only, handles and enumerations as what they are to the
// linker. NOLINTBEGIN(bugprone-reserved-identifier, bugprone-macro-parentheses)
#define CAMD_WATCH(kind, name, parameters, arguments) \
  extern "C" int __real_##name parameters;            \
  extern "C" int __wrap_##name parameters {           \
    count(Kind::kind, #name);                         \
    return __real_##name arguments;                   \
  }

CAMD_WATCH(kAllocates, cudaMalloc, (void** to, std::size_t size), (to, size))
CAMD_WATCH(kAllocates, cudaFree, (void* memory), (memory))
CAMD_WATCH(kAllocates, cudaMallocAsync, (void** to, std::size_t size, void* stream), (to, size, stream))
CAMD_WATCH(kAllocates, cudaHostAlloc, (void** to, std::size_t size, unsigned flags), (to, size, flags))
CAMD_WATCH(kAllocates, cudaMallocHost, (void** to, std::size_t size), (to, size))
CAMD_WATCH(kAllocates, cudaFreeHost, (void* memory), (memory))
CAMD_WATCH(kAllocates, cudaHostRegister, (void* memory, std::size_t size, unsigned flags), (memory, size, flags))
CAMD_WATCH(kAllocates, cudaEventCreateWithFlags, (void** event, unsigned flags), (event, flags))
CAMD_WATCH(kAllocates, cudaStreamCreateWithPriority, (void** stream, unsigned flags, int priority),
           (stream, flags, priority))
CAMD_WATCH(kAllocates, cudaStreamBeginCapture, (void* stream, int mode), (stream, mode))
CAMD_WATCH(kAllocates, cudaGraphInstantiate, (void** to, void* graph, unsigned long long flags), (to, graph, flags))
CAMD_WATCH(kWaits, cudaStreamSynchronize, (void* stream), (stream))
CAMD_WATCH(kWaits, cudaEventSynchronize, (void* event), (event))
CAMD_WATCH(kWaits, cudaDeviceSynchronize, (), ())
CAMD_WATCH(kWaits, cudaMemcpy, (void* to, const void* from, std::size_t size, int kind), (to, from, size, kind))
CAMD_WATCH(kWaits, cudaMemset, (void* to, int value, std::size_t size), (to, value, size))
CAMD_WATCH(kLaunches, cudaMemcpyAsync, (void* to, const void* from, std::size_t size, int kind, void* stream),
           (to, from, size, kind, stream))
CAMD_WATCH(kLaunches, cudaGraphLaunch, (void* graph, void* stream), (graph, stream))
CAMD_WATCH(kLaunches, cudaLaunchKernelExC, (const void* config, const void* kernel, void** arguments),
           (config, kernel, arguments))
// NOLINTEND(bugprone-reserved-identifier, bugprone-macro-parentheses)

namespace camd::test {

void start_cuda_watch() {
  allocating = waiting = launches = 0;
  name_count = 0;
  watching = true;
}

CudaReport stop_cuda_watch() {
  watching = false;
  CudaReport report{allocating, waiting, launches, ""};
  for (std::size_t i = 0; i < kNames && i < name_count; ++i) report.names += std::string(names[i]) + " ";
  return report;
}

}  // namespace camd::test
