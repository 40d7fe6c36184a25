#include "pipeline/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace camd::pipeline {
namespace {

using base::Duration;

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
    const double middle = Histogram::middle_of(Histogram::bucket_of(ns));
    EXPECT_NEAR(middle / static_cast<double>(ns), 1.0, 1.0 / 128) << ns;
    EXPECT_LT(Histogram::bucket_of(ns), Histogram::kBuckets);
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

}  // namespace
}  // namespace camd::pipeline
