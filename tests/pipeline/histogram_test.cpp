#include "pipeline/core/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::Duration;

// One alone.
class Histogram {
 public:
  void record(Duration duration) { histograms_.record({&duration, 1}); }
  [[nodiscard]] LatencySummary take() {
    LatencySummary summary;
    histograms_.take({&summary, 1});
    return summary;
  }

 private:
  Histograms histograms_{1};
};

TEST(Histogram, KeepsEveryPercentileWithinItsDocumentedErrorBound) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> times(std::log(3e6), 2.0);  // around 3 ms, a long tail
  Histogram histogram;
  std::vector<double> values;
  for (int i = 0; i < 20'001; ++i) {
    const auto ns = static_cast<std::int64_t>(times(random));
    values.push_back(static_cast<double>(ns) / 1000);
    histogram.record(Duration(ns));
  }
  std::sort(values.begin(), values.end());
  const auto exact = [&values](double q) {
    return values[static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size()))) - 1];
  };
  const LatencySummary summary = histogram.take();
  EXPECT_EQ(summary.count, values.size());
  EXPECT_NEAR(summary.p50 / exact(0.50), 1.0, 1.0 / 128);
  EXPECT_NEAR(summary.p90 / exact(0.90), 1.0, 1.0 / 128);
  EXPECT_NEAR(summary.p99 / exact(0.99), 1.0, 1.0 / 128);
  EXPECT_NEAR(summary.p999 / exact(0.999), 1.0, 1.0 / 128);
  EXPECT_DOUBLE_EQ(summary.max, values.back());
}

TEST(Histogram, PutsEveryValueIntoABucketWhoseMiddleIsNear) {
  for (std::uint64_t ns = 1; ns < (std::uint64_t{1} << 41); ns = ns * 17 / 16 + 1) {
    const double middle = Histograms::middle_of(Histograms::bucket_of(ns));
    EXPECT_NEAR(middle / static_cast<double>(ns), 1.0, 1.0 / 128) << ns;
    EXPECT_LT(Histograms::bucket_of(ns), Histograms::kBuckets);
  }
}

TEST(Histogram, TellsTheMaximumExactlyWhereverItLiesInItsBucket) {
  for (const int ns : {3'504'623, 64'001, 127, 1'000'003}) {
    Histogram histogram;
    histogram.record(Duration(ns));
    EXPECT_DOUBLE_EQ(histogram.take().max, ns / 1000.0);
  }
}

TEST(Histogram, StartsAnewAfterEveryTake) {
  Histogram histogram;
  histogram.record(std::chrono::milliseconds(5));
  EXPECT_EQ(histogram.take().count, 1U);
  const LatencySummary empty = histogram.take();
  EXPECT_EQ(empty.count, 0U);
  EXPECT_EQ(empty.max, 0.0);
}

TEST(Histogram, CountsNegativeTimesAsZeroAndEndlessOnesAtItsEnd) {
  Histogram histogram;
  histogram.record(Duration(-5));
  histogram.record(Duration::max());
  const LatencySummary summary = histogram.take();
  EXPECT_EQ(summary.count, 2U);
  EXPECT_EQ(summary.p50, 0.0);
}

TEST(Histogram, KeepsWhatIsRecordedTogetherApart) {
  Histograms histograms(3);
  histograms.record(std::array{Duration(1'000), Duration(0), Duration(64'000'000)});
  histograms.record(std::array{Duration(1'000), Duration(1'000), Duration(1'000)});
  std::array<LatencySummary, 3> summaries;
  histograms.take(summaries);
  EXPECT_EQ(summaries[0].count, 2U);
  EXPECT_EQ(summaries[0].max, 1.0);
  EXPECT_EQ(summaries[1].p50, 0.0);
  EXPECT_EQ(summaries[1].max, 1.0);
  EXPECT_EQ(summaries[2].max, 64'000.0);
  EXPECT_NEAR(summaries[2].p50, 1.0, 1.0 / 128);
}

TEST(Histogram, KeepsTotalsByPowerOfTwoWhateverWasTaken) {
  Histograms histograms(2);
  const auto totals = [&histograms] {
    std::array<DurationTotals, 2> both;
    histograms.totals(both);
    return both;
  };
  const auto record = [&histograms](std::int64_t ns) { histograms.record(std::array{Duration(ns), Duration(0)}); };
  for (const std::int64_t ns : {1, 8191, 8192, 16383, 16384}) record(ns);
  std::array<LatencySummary, 2> summaries;
  histograms.take(summaries);
  record((std::int64_t{1} << 32) - 1);
  record(std::int64_t{1} << 32);
  for (int i = 0; i < 2; ++i) {  // asking changes nothing
    const DurationTotals first = totals()[0];
    EXPECT_EQ(first.counts[0], 2U);
    EXPECT_EQ(first.counts[1], 2U);
    EXPECT_EQ(first.counts[2], 1U);
    EXPECT_EQ(first.counts[DurationTotals::kCounts - 2], 1U);
    EXPECT_EQ(first.counts[DurationTotals::kCounts - 1], 1U);
    EXPECT_EQ(first.count(), 7U);
    EXPECT_NEAR(first.sum_ns / (1.0 + 8191 + 8192 + 16383 + 16384 + 2 * 4294967296.0), 1.0, 1.0 / 128);
    EXPECT_EQ(totals()[1].counts[0], 7U);
    EXPECT_EQ(totals()[1].sum_ns, 0.0);
  }
  histograms.forget();
  EXPECT_EQ(totals()[0].count(), 0U);
  histograms.take(summaries);
  EXPECT_EQ(summaries[0].count, 0U);
}

TEST(Histogram, CutsNoBucketInTotals) {
  for (std::size_t i = 0; i + 1 < DurationTotals::kCounts; ++i) {
    const std::uint64_t longest = DurationTotals::longest_ns(i);
    EXPECT_NE(Histograms::bucket_of(longest), Histograms::bucket_of(longest + 1)) << longest;
  }
}

TEST(Histogram, TotalsNeverGoDownWhileOthersRecordAndTake) {
  Histograms histograms(1);
  constexpr std::uint64_t kEach = 50'000;
  std::atomic<bool> recorded{false};
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kEach; ++i) {
      const Duration duration(static_cast<std::int64_t>(i));
      histograms.record({&duration, 1});
    }
    recorded = true;
  });
  std::thread taker([&] {
    LatencySummary summary;
    while (!done) histograms.take({&summary, 1});
  });
  std::uint64_t last = 0;
  const auto look = [&] {
    DurationTotals totals;
    histograms.totals({&totals, 1});
    EXPECT_GE(totals.count(), last);
    last = totals.count();
  };
  while (!recorded) look();
  writer.join();
  look();
  EXPECT_EQ(last, kEach);
  done = true;
  taker.join();
}

TEST(Histogram, LosesNoValueBetweenConcurrentRecordsAndTakes) {
  Histogram histogram;
  constexpr std::uint64_t kEach = 100'000;
  std::atomic<int> running{2};
  const auto writer = [&histogram, &running] {
    for (std::uint64_t i = 0; i < kEach; ++i) histogram.record(Duration(static_cast<std::int64_t>(i)));
    --running;
  };
  std::thread a(writer);
  std::thread b(writer);
  std::uint64_t seen = 0;
  while (running > 0) seen += histogram.take().count;
  a.join();
  b.join();
  seen += histogram.take().count;
  EXPECT_EQ(seen, 2 * kEach);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
