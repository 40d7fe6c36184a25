// Histogram of durations with a bounded relative error, in the manner of HdrHistogram (hdrhistogram.org):
// every power of two is cut into 64 equal buckets.
//
// Error bound: below 64 ns values are exact; above, a percentile is the middle of a bucket whose width is at most
// 1/64 of its lower edge, so it is within 1/128 (0.79 %) of a recorded value. The maximum is exact, unless it is
// recorded just while take() runs: then it has the error of a percentile. Range: 0 .. 2^42 ns (73 minutes); negative
// durations count as 0, longer ones as 2^42 ns in the buckets.
//
// Threads: record() [any], wait-free, [no-alloc]; take() one thread at a time, concurrently with record().
// Invariants: every recorded value is in exactly one take().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"

namespace camd::pipeline {

// Microseconds over a period.
struct LatencySummary {
  std::uint64_t count = 0;
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

class Histogram {
 public:
  void record(base::Duration duration) noexcept;
  // What was recorded since the last take(); starts anew.
  [[nodiscard]] LatencySummary take();

  static constexpr int kSubBucketBits = 6;
  static constexpr int kRangeBits = 42;
  static constexpr std::size_t kBuckets = (static_cast<std::size_t>(kRangeBits - kSubBucketBits) + 1) << kSubBucketBits;
  // For tests: where a value is counted, and that bucket's middle.
  [[nodiscard]] static std::size_t bucket_of(std::uint64_t ns) noexcept;
  [[nodiscard]] static double middle_of(std::size_t bucket) noexcept;

 private:
  std::array<std::atomic<std::uint32_t>, kBuckets> counts_{};
  std::atomic<std::uint64_t> max_ns_{0};
  std::array<std::uint32_t, kBuckets> taken_{};  // scratch of take()
};

}  // namespace camd::pipeline
