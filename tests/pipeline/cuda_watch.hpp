// CudaWatch: counts calls of this program into the CUDA runtime, while it is asked to: those that allocate or make
// something, on every thread, and those that wait, on the dispatch thread. The runtime is linked statically, so the
// linker puts the counting functions before it (--wrap, tests/pipeline/CMakeLists.txt has the list).
//
// Threads: [any], one watch at a time.
#pragma once

#include <cstdint>
#include <string>

namespace camd::test {

struct CudaReport {
  std::uint64_t allocating = 0;
  std::uint64_t waiting = 0;   // on the dispatch thread
  std::uint64_t launches = 0;  // of kernels and graphs, and copies: that the watch saw anything at all
  std::string names;           // of what was counted as allocating or waiting
};

void start_cuda_watch();
[[nodiscard]] CudaReport stop_cuda_watch();

}  // namespace camd::test
