// Histograms of durations with a bounded relative error, in the manner of HdrHistogram (hdrhistogram.org):
// every power of two is cut into 64 equal buckets.
//
// One object holds several histograms, one for each stage of a frame, and record() gives each of them one duration. The
// counts of a bucket lie side by side for all histograms. Many stages of a frame take about as long as each other, so a
// frame touches a few cache lines instead of two for each stage.
//
// Error bound: below 64 ns values are exact; above, a percentile is the middle of a bucket whose width is at most
// 1/64 of its lower edge, so it is within 1/128 (0.79 %) of a recorded value. The maximum is exact, unless it is
// recorded just while take() runs: then it has the error of a percentile. Range: 0 .. 2^42 ns (73 minutes); negative
// durations count as 0, longer ones as 2^42 ns in the buckets.
//
//   function   thread
//   record()   [any], wait-free, [no-alloc]
//   take(), add_taken()  [any], one at a time by a lock, also while others record
//   totals()   [any], the same lock
//
// take() looks only into buckets that something was recorded in since the last one: with hundreds of cameras, looking
// into all of them would cost more than all other metrics.
//
// Invariants: every recorded value is in exactly one take(). totals() never go down, until forget().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/mutex.hpp"

namespace camd::pipeline {

// Microseconds over a period.
struct LatencySummary {
  std::uint64_t count = 0;
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

// All durations since the beginning, by power of two. No bucket of the histogram lies across a power of two, so these
// counts are exact.
struct DurationTotals {
  static constexpr int kFirstBits = 13;         // the first count: below 2^13 ns, 8.2 us
  static constexpr std::size_t kCounts = 21;    // the last but one: below 2^32 ns, 4.3 s; the last: all that is longer
  std::array<std::uint64_t, kCounts> counts{};  // each without those of the counts before it
  double sum_ns = 0;                            // of the middles of their buckets, so within 1/128 of the true sum

  [[nodiscard]] std::uint64_t count() const noexcept;
  // The longest duration that counts[index] holds, in nanoseconds. Not for the last one.
  [[nodiscard]] static std::uint64_t longest_ns(std::size_t index) noexcept {
    return (std::uint64_t{1} << (kFirstBits + static_cast<int>(index))) - 1;
  }
};

// [any] Of few durations, exact. Sorts them.
[[nodiscard]] LatencySummary summary_of(std::span<base::Duration> durations);

class Histograms {
 public:
  explicit Histograms(std::size_t count);
  // One duration for each histogram.
  void record(std::span<const base::Duration> durations) noexcept;
  // What each was given since the last take(), one summary for each histogram. Sets them to zero.
  void take(std::span<LatencySummary> summaries);
  // For durations of one histogram that are summarized elsewhere: what record() and take() would add to its totals.
  void add_taken(std::size_t histogram, std::span<const base::Duration> durations);
  // What each was ever given, whether it was taken or not.
  void totals(std::span<DurationTotals> totals) const;
  // All begins anew.
  void forget();

  static constexpr int kSubBucketBits = 6;
  static constexpr int kRangeBits = 42;
  static constexpr std::size_t kBuckets = (static_cast<std::size_t>(kRangeBits - kSubBucketBits) + 1) << kSubBucketBits;
  // For tests: where a value is counted, and that bucket's middle.
  [[nodiscard]] static std::size_t bucket_of(std::uint64_t ns) noexcept;
  [[nodiscard]] static double middle_of(std::size_t bucket) noexcept;

 private:
  [[nodiscard]] std::size_t find_used() CAMD_REQUIRES(taking_);
  [[nodiscard]] LatencySummary take(std::size_t histogram, std::size_t used) CAMD_REQUIRES(taking_);
  void raise_max(std::size_t histogram, std::uint64_t ns) noexcept;

  const std::size_t count_;
  std::vector<std::atomic<std::uint64_t>> max_ns_;   // [histogram]
  std::vector<std::atomic<std::uint32_t>> counts_;   // [bucket][histogram]
  std::vector<std::atomic<std::uint64_t>> touched_;  // a bit for each bucket that take() must look into
  mutable base::Mutex taking_;
  std::vector<std::size_t> used_ CAMD_GUARDED_BY(taking_);       // scratch of take(): those buckets, in order
  std::vector<std::uint32_t> taken_ CAMD_GUARDED_BY(taking_);    // scratch of take(): a histogram's counts in them
  std::vector<DurationTotals> totals_ CAMD_GUARDED_BY(taking_);  // [histogram] of what was taken
};

}  // namespace camd::pipeline
