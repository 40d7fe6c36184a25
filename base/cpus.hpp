// How many CPUs there are for this process's threads.
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

namespace camd::base {

// [any] CPUs that the calling thread may run on, at least 1: fewer than the machine has in a container with a set of
// CPUs, with CPUAffinity= of systemd or under taskset. std::thread::hardware_concurrency() counts all.
[[nodiscard]] inline int usable_cpus() noexcept {
  cpu_set_t cpus;
  // Fails where the kernel knows more CPUs than the set has room for (1024).
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return std::max(1, CPU_COUNT(&cpus));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace camd::base
