// Buckets of a histogram: where a duration is counted, and how percentiles are read from the counts.
#include "pipeline/core/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace camd::pipeline {
namespace {

constexpr std::uint64_t kSubBuckets = std::uint64_t{1} << Histograms::kSubBucketBits;
constexpr std::uint64_t kLargest = (std::uint64_t{1} << Histograms::kRangeBits) - 1;

}  // namespace

std::size_t Histograms::bucket_of(std::uint64_t ns) noexcept {
  if (ns < kSubBuckets) return static_cast<std::size_t>(ns);
  ns = std::min(ns, kLargest);
  // The top kSubBucketBits + 1 bits select the bucket: the leading one gives the octave, the rest the position in it.
  const int shift = static_cast<int>(std::bit_width(ns)) - 1 - kSubBucketBits;
  const std::uint64_t position = (ns >> shift) - kSubBuckets;
  return static_cast<std::size_t>(kSubBuckets * static_cast<std::uint64_t>(shift + 1) + position);
}

double Histograms::middle_of(std::size_t bucket) noexcept {
  if (bucket < kSubBuckets) return static_cast<double>(bucket);
  const std::uint64_t shift = bucket / kSubBuckets - 1;
  const std::uint64_t low = (kSubBuckets + bucket % kSubBuckets) << shift;
  return static_cast<double>(low) + static_cast<double>((std::uint64_t{1} << shift) - 1) / 2;
}

Histograms::Histograms(std::size_t count)
    : count_(count), max_ns_(count), counts_(count * kBuckets), taken_(kBuckets) {}

void Histograms::record(std::span<const base::Duration> durations) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(durations[i].count(), 0));
    raise_max(i, ns);
    counts_[bucket_of(ns) * count_ + i].fetch_add(1, std::memory_order_release);
  }
}

void Histograms::raise_max(std::size_t histogram, std::uint64_t ns) noexcept {
  std::uint64_t seen = max_ns_[histogram].load(std::memory_order_relaxed);
  while (ns > seen && !max_ns_[histogram].compare_exchange_weak(seen, ns, std::memory_order_relaxed)) {
  }
}

void Histograms::take(std::span<LatencySummary> summaries) {
  for (std::size_t i = 0; i < count_; ++i) summaries[i] = take(i);
}

LatencySummary Histograms::take(std::size_t histogram) {
  LatencySummary summary;
  std::size_t highest = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    taken_[i] = counts_[i * count_ + histogram].exchange(0, std::memory_order_acquire);
    summary.count += taken_[i];
    if (taken_[i] != 0) highest = i;
  }
  const auto max_ns = static_cast<double>(max_ns_[histogram].exchange(0, std::memory_order_relaxed));
  if (summary.count == 0) {
    // A maximum without its count: record() was caught between its two steps. It belongs to the next take().
    raise_max(histogram, static_cast<std::uint64_t>(max_ns));
    return summary;
  }
  // A record() that is caught between its steps may leave its maximum to another take(): then the highest bucket tells.
  const bool exact = bucket_of(static_cast<std::uint64_t>(max_ns)) >= highest;
  const double max_seen = exact ? max_ns : middle_of(highest);
  std::size_t bucket = 0;
  std::uint64_t below = 0;  // values in the buckets before `bucket`
  const auto value_at = [&](double quantile) {
    // Nearest rank: the smallest value with at least quantile * count values at or below it.
    const auto rank = std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(std::ceil(quantile * static_cast<double>(summary.count))));
    while (below + taken_[bucket] < rank) below += taken_[bucket++];
    return std::min(middle_of(bucket), max_seen) / 1000.0;
  };
  summary.p50 = value_at(0.50);
  summary.p90 = value_at(0.90);
  summary.p99 = value_at(0.99);
  summary.p999 = value_at(0.999);
  summary.max = max_seen / 1000.0;
  return summary;
}

}  // namespace camd::pipeline
