// HeapWatch: counts what the whole process allocates between two moments, on every thread, whoever asks: our code, the
// standard library, OpenCV; what NVIDIA's driver allocates for itself is counted apart. Linking heap_watch.cpp replaces
// malloc() and its kin in that program.
//
// Threads: [any], one watch at a time.
// Not for sanitizer builds, which have a malloc() of their own.
#pragma once

#include <cstdint>
#include <string>

namespace camd::test {

struct HeapReport {
  std::uint64_t allocations = 0;
  std::uint64_t of_driver = 0;
  std::string where;  // call stacks of the first ones, for addr2line
};

void start_heap_watch();
[[nodiscard]] HeapReport stop_heap_watch();

}  // namespace camd::test
