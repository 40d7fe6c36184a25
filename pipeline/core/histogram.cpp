// Buckets of a histogram: where a duration is counted, and how percentiles are read from the counts.
#include "pipeline/core/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace camd::pipeline {
namespace {

constexpr std::uint64_t kSubBuckets = std::uint64_t{1} << Histograms::kSubBucketBits;
constexpr std::uint64_t kLargest = (std::uint64_t{1} << Histograms::kRangeBits) - 1;
constexpr std::size_t kWordBits = 64;

void add(DurationTotals& totals, std::size_t bucket, std::uint64_t count) noexcept {
  // The largest value of a bucket has as many bits as its smallest one.
  const std::size_t bits = bucket < kSubBuckets ? static_cast<std::size_t>(std::bit_width(bucket))
                                                : bucket / kSubBuckets + std::size_t{Histograms::kSubBucketBits};
  constexpr std::size_t kFirst = DurationTotals::kFirstBits;
  const std::size_t index = bits <= kFirst ? 0 : std::min(bits - kFirst, DurationTotals::kCounts - 1);
  totals.counts[index] += count;
  totals.sum_ns += static_cast<double>(count) * Histograms::middle_of(bucket);
}

}  // namespace

std::uint64_t DurationTotals::count() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

namespace {

std::uint64_t nanoseconds(base::Duration duration) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0));
}

// Nearest rank: the smallest value with at least quantile * count values at or below it. Counted from 1.
std::uint64_t rank_of(double quantile, std::uint64_t count) noexcept {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(quantile * static_cast<double>(count))));
}

}  // namespace

LatencySummary summary_of(std::span<base::Duration> durations) {
  LatencySummary summary;
  summary.count = durations.size();
  if (durations.empty()) return summary;
  std::sort(durations.begin(), durations.end());
  const auto value_at = [&](double quantile) {
    return static_cast<double>(nanoseconds(durations[rank_of(quantile, summary.count) - 1])) / 1000.0;
  };
  summary.p50 = value_at(0.50);
  summary.p90 = value_at(0.90);
  summary.p99 = value_at(0.99);
  summary.p999 = value_at(0.999);
  summary.max = value_at(1);
  return summary;
}

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
    : count_(count),
      max_ns_(count),
      counts_(count * kBuckets),
      touched_((kBuckets + kWordBits - 1) / kWordBits),
      used_(kBuckets),
      taken_(kBuckets),
      totals_(count) {}

void Histograms::record(std::span<const base::Duration> durations) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const std::uint64_t ns = nanoseconds(durations[i]);
    raise_max(i, ns);
    const std::size_t bucket = bucket_of(ns);
    // First the count, then its bit, in one order for all: a take() that has cleared the bit and read the count before
    // leaves both to the next one.
    counts_[bucket * count_ + i].fetch_add(1);
    std::atomic<std::uint64_t>& word = touched_[bucket / kWordBits];
    const std::uint64_t bit = std::uint64_t{1} << (bucket % kWordBits);
    if ((word.load() & bit) == 0) word.fetch_or(bit);
  }
}

void Histograms::raise_max(std::size_t histogram, std::uint64_t ns) noexcept {
  std::uint64_t seen = max_ns_[histogram].load(std::memory_order_relaxed);
  while (ns > seen && !max_ns_[histogram].compare_exchange_weak(seen, ns, std::memory_order_relaxed)) {
  }
}

void Histograms::take(std::span<LatencySummary> summaries) {
  const base::MutexLock lock(taking_);
  const std::size_t used = find_used();
  for (std::size_t i = 0; i < count_; ++i) summaries[i] = take(i, used);
}

void Histograms::add_taken(std::size_t histogram, std::span<const base::Duration> durations) {
  const base::MutexLock lock(taking_);
  for (const base::Duration duration : durations) add(totals_[histogram], bucket_of(nanoseconds(duration)), 1);
}

void Histograms::totals(std::span<DurationTotals> totals) const {
  const base::MutexLock lock(taking_);
  std::copy(totals_.begin(), totals_.end(), totals.begin());
  for (std::size_t word = 0; word < touched_.size(); ++word) {
    for (std::uint64_t bits = touched_[word].load(); bits != 0; bits &= bits - 1) {
      const std::size_t bucket = word * kWordBits + static_cast<std::size_t>(std::countr_zero(bits));
      for (std::size_t i = 0; i < count_; ++i) add(totals[i], bucket, counts_[bucket * count_ + i].load());
    }
  }
}

void Histograms::forget() {
  const base::MutexLock lock(taking_);
  const std::size_t used = find_used();
  for (std::size_t i = 0; i < count_; ++i) (void)take(i, used);
  std::fill(totals_.begin(), totals_.end(), DurationTotals{});
}

// Fills used_; how many there are.
std::size_t Histograms::find_used() {
  std::size_t used = 0;
  for (std::size_t word = 0; word < touched_.size(); ++word) {
    if (touched_[word].load() == 0) continue;
    for (std::uint64_t bits = touched_[word].exchange(0); bits != 0; bits &= bits - 1) {
      used_[used++] = word * kWordBits + static_cast<std::size_t>(std::countr_zero(bits));
    }
  }
  return used;
}

// From the first `used` buckets of used_.
LatencySummary Histograms::take(std::size_t histogram, std::size_t used) {
  LatencySummary summary;
  std::size_t highest = 0;
  for (std::size_t i = 0; i < used; ++i) {
    std::atomic<std::uint32_t>& count = counts_[used_[i] * count_ + histogram];
    taken_[i] = count.load() == 0 ? 0 : count.exchange(0);
    summary.count += taken_[i];
    if (taken_[i] != 0) add(totals_[histogram], used_[i], taken_[i]);
    if (taken_[i] != 0) highest = used_[i];
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
  const std::uint32_t* const counts = taken_.data();  // the analysis of locks does not look into lambdas
  const std::size_t* const buckets = used_.data();
  std::size_t place = 0;
  std::uint64_t below = 0;  // values in the buckets before that of `place`
  const auto value_at = [&](double quantile) {
    const std::uint64_t rank = rank_of(quantile, summary.count);
    while (below + counts[place] < rank) below += counts[place++];
    return std::min(middle_of(buckets[place]), max_seen) / 1000.0;
  };
  summary.p50 = value_at(0.50);
  summary.p90 = value_at(0.90);
  summary.p99 = value_at(0.99);
  summary.p999 = value_at(0.999);
  summary.max = max_seen / 1000.0;
  return summary;
}

}  // namespace camd::pipeline
