// What the kernel says of this process: CPU time, memory, threads (proc(5): /proc/self/stat, /proc/self/statm).
//
// Threads: one thread at a time per object.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace camd::pipeline {

struct ProcessStats {
  double cpu_percent = 0;      // of one core, since the last sample: 200 is two cores busy
  base::Duration cpu_time{0};  // since the process began
  std::uint64_t rss_bytes = 0;
  int threads = 0;
};

class ProcessSampler {
 public:
  explicit ProcessSampler(const base::Clock& clock);
  // All zero where /proc cannot be read.
  [[nodiscard]] ProcessStats sample();

 private:
  const base::Clock& clock_;
  base::TimePoint last_time_;
  base::Duration last_cpu_;
};

}  // namespace camd::pipeline
