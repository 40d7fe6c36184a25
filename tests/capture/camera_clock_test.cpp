// CameraClock in virtual time: cameras whose clocks drift, step, start over and stand still, behind networks that
// jitter, lose and stall. Seeds are fixed, nothing waits.
//
// The table in docs/metrics.md comes from CameraClockHour: it prints p50 and p99 of the error of the capture time.
#include "capture/camera_clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::Duration;
using base::TimePoint;
using std::chrono::duration_cast;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr TimePoint kBegin(hours(100));
double ms(Duration duration) { return static_cast<double>(duration.count()) / 1e6; }

struct Stall {
  Duration at;      // since the begin
  Duration length;  // nothing arrives; then all of it at once
};

// A camera, its network, and camd's clock for it.
struct World {
  double fps = 30;
  double drift_ppm = 0;
  Duration least_delay = milliseconds(1);
  Duration jitter = milliseconds(3);  // mean of an exponential distribution, on top of the least delay
  double spikes = 0.01;               // of the pictures come up to 80 ms later
  double loss = 0;
  std::vector<Stall> stalls;
  // What the camera does to its stamp; the argument is the time since the begin.
  std::function<Duration(Duration since, Duration stamp)> mangle;
  std::uint64_t seed = 1;

  struct Picture {
    Duration since;   // truth, since the begin
    TimePoint taken;  // truth
    TimePoint arrived;
    CaptureTime told;
    [[nodiscard]] Duration younger() const { return told.captured - taken; }  // above 0: told younger than it is
    [[nodiscard]] Duration age_told() const { return arrived - told.captured; }
  };

  CameraClock clock{CameraClock::Stamps::kCameras};

  // Runs the camera from `from` to `to` after the begin.
  std::vector<Picture> run(Duration from, Duration to) {
    std::mt19937_64 random(seed);
    const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) / 9007199254740992.0; };
    struct Sent {
      Picture picture;
      Duration stamp;
    };
    std::vector<Sent> sent;
    TimePoint last;
    for (std::int64_t k = std::llround(static_cast<double>(from.count()) * fps / 1e9);; ++k) {
      const Duration since(std::llround(static_cast<double>(k) * 1e9 / fps));
      if (since >= to) break;
      const double spike = uniform() < spikes ? 80e6 * uniform() : 0;
      const Duration late(std::llround(-std::log(uniform()) * static_cast<double>(jitter.count()) + spike));
      if (uniform() < loss) continue;
      Sent one;
      one.picture.since = since;
      one.picture.taken = kBegin + since;
      one.picture.arrived = kBegin + since + least_delay + late;
      for (const Stall& stall : stalls) {
        const TimePoint begin = kBegin + stall.at;
        if (one.picture.arrived >= begin && one.picture.arrived < begin + stall.length) {
          one.picture.arrived = begin + stall.length;
        }
      }
      one.picture.arrived = std::max(one.picture.arrived, last + microseconds(50));
      last = one.picture.arrived;
      Duration stamp(std::llround(static_cast<double>(since.count()) * (1 + drift_ppm * 1e-6)));
      if (mangle) stamp = mangle(since, stamp);
      // RTP counts in 1/90000 s (RFC 3551, section 5).
      one.stamp = Duration(std::llround(std::floor(static_cast<double>(stamp.count()) * 9e-5) / 9e-5));
      sent.push_back(one);
    }
    std::vector<Picture> pictures;
    TimePoint before = TimePoint::min();
    for (Sent& one : sent) {
      const CameraStamp stamp = clock.observe(one.stamp, one.picture.arrived);
      one.picture.told = clock.captured(stamp, one.picture.arrived);
      EXPECT_LE(one.picture.told.captured, one.picture.arrived);
      EXPECT_GE(one.picture.told.captured, before);
      before = one.picture.told.captured;
      pictures.push_back(one.picture);
    }
    return pictures;
  }
  std::vector<Picture> run(Duration to) { return run(Duration::zero(), to); }
};

using Pictures = std::vector<World::Picture>;

// Of the absolute error of those taken from `from` on; percent 0..100.
Duration error(const Pictures& pictures, double percent, Duration from, Duration to = hours(1000)) {
  std::vector<Duration> errors;
  for (const World::Picture& one : pictures) {
    if (one.since >= from && one.since < to) errors.push_back(std::chrono::abs(one.younger()));
  }
  if (errors.empty()) return Duration::max();
  std::sort(errors.begin(), errors.end());
  return errors[static_cast<std::size_t>(static_cast<double>(errors.size() - 1) * percent / 100)];
}

Duration most_younger(const Pictures& pictures, Duration from, Duration to = hours(1000)) {
  Duration most = Duration::min();
  for (const World::Picture& one : pictures) {
    if (one.since >= from && one.since < to) most = std::max(most, one.younger());
  }
  return most;
}

void print(const std::string& name, const Pictures& pictures, Duration from = seconds(30)) {
  std::printf("%-58s p50 %7.3f ms  p99 %7.3f ms  max %8.3f ms  younger by at most %7.3f ms\n", name.c_str(),
              ms(error(pictures, 50, from)), ms(error(pictures, 99, from)), ms(error(pictures, 100, from)),
              ms(most_younger(pictures, from)));
}

// ---- Drift

class CameraClockHour : public ::testing::TestWithParam<double> {};

TEST_P(CameraClockHour, FollowsTheDriftThroughJitter) {
  World world;
  world.drift_ppm = GetParam();
  const Pictures pictures = world.run(hours(1));
  print("drift " + std::to_string(static_cast<int>(GetParam())) + " ppm", pictures);
  EXPECT_LT(error(pictures, 99, seconds(30)), milliseconds(5));
  EXPECT_LT(most_younger(pictures, seconds(30)), milliseconds(50));
  EXPECT_NEAR(world.clock.status().drift_ppm, GetParam(), 3);
  EXPECT_EQ(world.clock.status().steps, 0U);
  EXPECT_EQ(world.clock.status().source, ClockSource::kEstimated);
}

TEST_P(CameraClockHour, FollowsTheDriftThroughLoss) {
  World world;
  world.drift_ppm = GetParam();
  world.loss = 0.2;
  world.seed = 2;
  const Pictures pictures = world.run(hours(1));
  print("drift " + std::to_string(static_cast<int>(GetParam())) + " ppm, a fifth lost", pictures);
  EXPECT_LT(error(pictures, 99, seconds(30)), milliseconds(5));
  EXPECT_EQ(world.clock.status().steps, 0U);
}

// Few pictures come through undisturbed, so it takes minutes to know the line well.
TEST_P(CameraClockHour, FollowsTheDriftThroughBadJitter) {
  World world;
  world.drift_ppm = GetParam();
  world.jitter = milliseconds(30);
  world.spikes = 0.9;
  world.loss = 0.05;
  world.seed = 5;
  const Pictures pictures = world.run(hours(1));
  print("drift " + std::to_string(static_cast<int>(GetParam())) + " ppm, jitter of 30 ms, 9 of 10 up to 80 ms more",
        pictures, minutes(5));
  EXPECT_LT(error(pictures, 99, minutes(5)), milliseconds(5));
  EXPECT_EQ(world.clock.status().steps, 0U);
}

TEST_P(CameraClockHour, KnowsABacklogFromAStall) {
  World world;
  world.drift_ppm = GetParam();
  world.seed = 3;
  const std::vector<Duration> lengths = {milliseconds(200), milliseconds(500), seconds(1),
                                         seconds(3),        seconds(10),       seconds(30)};
  Duration at = seconds(60);
  for (int i = 0; at < minutes(59); ++i, at += seconds(97)) {
    world.stalls.push_back({at, lengths[static_cast<std::size_t>(i) % lengths.size()]});
  }
  const Pictures pictures = world.run(hours(1));
  print("drift " + std::to_string(static_cast<int>(GetParam())) + " ppm, 37 stalls of 0.2 to 30 s", pictures);
  EXPECT_LT(error(pictures, 99, seconds(30)), milliseconds(5));
  EXPECT_LT(most_younger(pictures, seconds(30)), milliseconds(50));
  EXPECT_EQ(world.clock.status().steps, 0U);
}

TEST_P(CameraClockHour, FollowsStepsAndRestartsWithinASecond) {
  World world;
  world.drift_ppm = GetParam();
  world.seed = 4;
  // Every five minutes another: forwards, backwards, by little and by much, from the beginning.
  const std::vector<Duration> by = {milliseconds(300), -milliseconds(300), seconds(5),
                                    -seconds(5),       hours(3),           -hours(3),
                                    milliseconds(150), -milliseconds(70),  -milliseconds(700)};
  world.mangle = [&](Duration since, Duration stamp) {
    for (std::size_t i = 0; i < by.size(); ++i) {
      if (since >= minutes(5) * (static_cast<int>(i) + 1)) stamp += by[i];
    }
    return since >= minutes(55) ? stamp - minutes(55) : stamp;
  };
  const Pictures pictures = world.run(hours(1));
  print("drift " + std::to_string(static_cast<int>(GetParam())) + " ppm, 10 steps", pictures);
  EXPECT_EQ(world.clock.status().steps, by.size() + 1);
  EXPECT_LT(error(pictures, 99, seconds(30)), milliseconds(5));
  for (int i = 1; i <= static_cast<int>(by.size()) + 1; ++i) {
    const Duration step = minutes(5) * (i == static_cast<int>(by.size()) + 1 ? 11 : i);
    EXPECT_LT(error(pictures, 100, step + seconds(1), step + seconds(2)), milliseconds(100)) << i;
    EXPECT_LT(error(pictures, 90, step + seconds(1), step + seconds(10)), milliseconds(10)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ppm, CameraClockHour, ::testing::Values(0.0, 50.0, -50.0, 200.0, -200.0), [](const auto& one) {
  const int ppm = static_cast<int>(one.param);
  return ppm < 0 ? "Slow" + std::to_string(-ppm) : ppm > 0 ? "Fast" + std::to_string(ppm) : std::string("Right");
});

// ---- Start

TEST(CameraClock, SettlesWithinSeconds) {
  World world;
  world.drift_ppm = 200;
  const Pictures pictures = world.run(seconds(10));
  EXPECT_GE(pictures.front().told.uncertainty, seconds(1));
  EXPECT_LT(error(pictures, 100, seconds(3)), milliseconds(10));
  for (const World::Picture& one : pictures) {
    EXPECT_LE(std::chrono::abs(one.younger()), one.told.uncertainty + world.least_delay) << ms(one.since);
  }
  EXPECT_LT(pictures.back().told.uncertainty, milliseconds(5));
}

// A server that keeps the last group of pictures, or a connection that begins in a stall.
TEST(CameraClock, ToldUncertainUntilABacklogAtTheStartHasRunOut) {
  World world;
  world.stalls = {{Duration::zero(), seconds(1)}};
  const Pictures pictures = world.run(seconds(10));
  for (const World::Picture& one : pictures) {
    EXPECT_LE(one.younger(), one.told.uncertainty + world.least_delay) << ms(one.since);
  }
  EXPECT_LT(error(pictures, 100, seconds(1)), milliseconds(10));
}

// Pictures are published after they are decoded: by then the whole burst has arrived.
TEST(CameraClock, ABurstAtTheStartIsOldWhenItIsAskedLater) {
  CameraClock clock(CameraClock::Stamps::kCameras);
  std::vector<CameraStamp> stamps;
  const TimePoint burst = kBegin + seconds(2);
  for (int k = 0; k <= 60; ++k) stamps.push_back(clock.observe(k * milliseconds(33), burst + k * microseconds(10)));
  EXPECT_EQ(clock.captured(stamps[0], burst + milliseconds(1)).captured,
            burst + microseconds(600) - 60 * milliseconds(33));
}

// ---- Stalls

TEST(CameraClock, ABacklogThatNeverDrainsStaysOld) {
  World world;
  world.drift_ppm = 50;
  world.jitter = milliseconds(3);
  (void)world.run(minutes(5));
  world.least_delay += seconds(3);  // a queue on the way is full, and stays so
  const Pictures late = world.run(minutes(5), minutes(65));
  print("after 5 minutes 3 s behind for an hour, drift 50 ppm", late, minutes(5));
  EXPECT_LT(most_younger(late, minutes(5)), milliseconds(50));
  EXPECT_EQ(world.clock.status().steps, 0U);
  for (const World::Picture& one : late) EXPECT_GE(one.age_told(), milliseconds(2950));
}

TEST(CameraClock, AStallInTheSecondSecondIsKnown) {
  for (const double ppm : {-200.0, 200.0}) {
    World world;
    world.drift_ppm = ppm;
    world.stalls = {{milliseconds(1500), seconds(30)}};
    const Pictures pictures = world.run(minutes(2));
    EXPECT_LT(most_younger(pictures, milliseconds(500)), milliseconds(50));
    EXPECT_LT(error(pictures, 100, seconds(40)), milliseconds(10));
  }
}

// ---- Steps

TEST(CameraClock, StampsThatStandStillAreReplacedByTheArrival) {
  World world;
  world.mangle = [](Duration since, Duration stamp) {
    return since < seconds(10) ? stamp : since < seconds(20) ? Duration(seconds(10)) : stamp - seconds(10);
  };
  const Pictures pictures = world.run(seconds(30));
  for (const World::Picture& one : pictures) {
    if (one.since >= milliseconds(10'300) && one.since < seconds(20)) {
      EXPECT_EQ(one.told.captured, one.arrived);
      EXPECT_EQ(one.told.uncertainty, CameraClock::kUnsettled);
    }
  }
  EXPECT_LT(error(pictures, 100, seconds(21)), milliseconds(10));
  EXPECT_EQ(world.clock.status().steps, 1U);
  EXPECT_EQ(world.clock.status().source, ClockSource::kEstimated);
}

// Where they stood for 70 to 200 ms, all that followed were told older by that, until the next connection.
TEST(CameraClock, StampsThatStoodStillForAMomentAreFollowedWithinASecond) {
  for (int stood_ms = 0; stood_ms <= 600; stood_ms += 7) {
    World world;
    world.seed = static_cast<std::uint64_t>(stood_ms) + 1;
    const Duration begin = seconds(2) + milliseconds(stood_ms % 33);
    const Duration stood = milliseconds(stood_ms);
    world.mangle = [&](Duration since, Duration stamp) {
      if (since < begin) return stamp;
      return since < begin + stood ? begin : stamp - stood;
    };
    const Pictures pictures = world.run(seconds(12));
    EXPECT_LT(error(pictures, 100, begin + stood + seconds(1)), milliseconds(50)) << stood_ms;
  }
}

TEST(CameraClock, OneWrongStampChangesNothingThatFollows) {
  World world;
  world.mangle = [](Duration since, Duration stamp) {
    return since >= seconds(60) && since < milliseconds(60'020) ? stamp + hours(1) : stamp;
  };
  const Pictures pictures = world.run(minutes(2));
  EXPECT_EQ(world.clock.status().steps, 2U);  // there and back
  EXPECT_LT(error(pictures, 100, milliseconds(60'040)), milliseconds(5));
  EXPECT_LT(pictures.back().told.uncertainty, milliseconds(5));
}

TEST(CameraClock, BPicturesAreNoSteps) {
  CameraClock clock(CameraClock::Stamps::kCameras);
  const Duration period = milliseconds(40);
  const Duration shown[] = {3 * period, 1 * period, 2 * period};  // in the order of decoding
  for (int group = 0; group < 1000; ++group) {
    for (int i = 0; i < 3; ++i) {
      const TimePoint arrived = kBegin + (3 * group + i + 3) * period;
      (void)clock.observe(3 * group * period + shown[i], arrived);
    }
  }
  EXPECT_EQ(clock.status().steps, 0U);
}

TEST(CameraClock, PicturesThatWereInTheDecoderAtAStepKeepTheirTime) {
  CameraClock clock(CameraClock::Stamps::kCameras);
  CameraStamp last;
  Duration since{};
  for (; since < seconds(30); since += milliseconds(40)) {
    last = clock.observe(since, kBegin + since);
    (void)clock.captured(last, kBegin + since);
  }
  last = clock.observe(since, kBegin + since);
  (void)clock.observe(Duration::zero(), kBegin + since + milliseconds(40));  // the camera starts over
  EXPECT_EQ(clock.captured(last, kBegin + since + milliseconds(45)).captured, kBegin + since);
  EXPECT_EQ(clock.status().steps, 1U);
}

TEST(CameraClock, KnowsTheCamerasDriftAfterAReconnection) {
  World world;
  world.drift_ppm = 200;
  (void)world.run(minutes(10));
  world.clock.reconnected();
  world.mangle = [](Duration, Duration stamp) { return stamp + hours(5); };
  const Pictures pictures = world.run(minutes(11), minutes(12));
  EXPECT_GE(pictures.front().told.uncertainty, seconds(1));
  EXPECT_LT(error(pictures, 100, minutes(11) + seconds(3)), milliseconds(5));
  EXPECT_EQ(world.clock.status().steps, 0U);
  EXPECT_NEAR(world.clock.status().drift_ppm, 200, 5);
}

// ---- Stamps of this machine's clock

TEST(CameraClock, TrustsADriversStamps) {
  CameraClock clock(CameraClock::Stamps::kMonotonic);
  for (Duration since{}; since < minutes(1); since += milliseconds(40)) {
    const TimePoint taken = kBegin + since;
    const TimePoint arrived = taken + milliseconds(30);
    const CameraStamp stamp = clock.observe(taken.time_since_epoch(), arrived);
    EXPECT_EQ(clock.captured(stamp, arrived).captured, taken);
  }
  EXPECT_EQ(clock.status().source, ClockSource::kMonotonic);
  EXPECT_EQ(clock.status().offset, Duration::zero());
}

TEST(CameraClock, FollowsDriversStampsThatRunAway) {
  for (const double ppm : {-200.0, 200.0}) {
    CameraClock clock(CameraClock::Stamps::kMonotonic);
    Duration worst{};
    for (Duration since{}; since < hours(1); since += milliseconds(40)) {
      const TimePoint taken = kBegin + since;
      const TimePoint arrived = taken + milliseconds(30);
      const Duration stamp = taken.time_since_epoch() + Duration(std::llround(ppm * 1e-6 * double(since.count())));
      worst =
          std::max(worst, std::chrono::abs(clock.captured(clock.observe(stamp, arrived), arrived).captured - taken));
    }
    EXPECT_LT(worst, milliseconds(10));
    EXPECT_EQ(clock.status().source, ClockSource::kEstimated);
    EXPECT_NEAR(clock.status().drift_ppm, ppm, 1);
  }
}

// The sources of GStreamer deliver nothing for ever when this fails.
TEST(CameraClock, FollowsDriversStampsThatStartOver) {
  CameraClock clock(CameraClock::Stamps::kMonotonic);
  TimePoint arrived;
  CaptureTime told;
  for (Duration since{}; since < minutes(1); since += milliseconds(40)) {
    const Duration stamp = kBegin.time_since_epoch() + (since < seconds(30) ? since : since - seconds(30));
    arrived = kBegin + since + milliseconds(5);
    told = clock.captured(clock.observe(stamp, arrived), arrived);
    if (since > seconds(31)) {
      EXPECT_LE(arrived - told.captured, milliseconds(6));
    }
  }
  EXPECT_EQ(told.captured, arrived - milliseconds(5));  // as long as the way took before
  EXPECT_EQ(clock.status().steps, 1U);
}

TEST(CameraClock, KeepsKnownTimesInOrderAndNotAfterTheArrival) {
  CameraClock clock(CameraClock::Stamps::kMonotonic);
  EXPECT_EQ(clock.known(base::from_ns(10), base::from_ns(20)).captured, base::from_ns(10));
  EXPECT_EQ(clock.known(base::from_ns(5), base::from_ns(30)).captured, base::from_ns(10));
  EXPECT_EQ(clock.known(base::from_ns(50), base::from_ns(40)).captured, base::from_ns(40));
}

TEST(CameraClock, ToldArrivalWithoutStamps) {
  CameraClock clock(CameraClock::Stamps::kMonotonic);
  EXPECT_EQ(clock.captured_unstamped(kBegin).captured, kBegin);
  EXPECT_EQ(clock.status().source, ClockSource::kArrival);
}

// ---- Sender reports

struct Reports {
  Duration camera_ahead{};  // the camera's wall clock
  Duration least_delay = milliseconds(60);
  CameraClock clock{CameraClock::Stamps::kCameras};
  Duration error{};  // of the last picture
  CaptureTime told;

  void run(Duration to) {
    const std::int64_t wall = 1'800'000'000'000'000'000;  // our wall clock at kBegin
    for (Duration since{}; since < to; since += milliseconds(40)) {
      const TimePoint arrived = kBegin + since + least_delay;
      told = clock.captured(clock.observe(since, arrived), arrived);
      error = told.captured - (kBegin + since);
      if (since % seconds(5) != Duration::zero()) continue;
      SenderReport report;
      report.stamp = since;
      report.wall_ns = wall + (since + camera_ahead).count();
      report.arrived = arrived;
      report.our_wall_ns = wall + (arrived - kBegin).count();
      clock.report(report);
    }
  }
};

TEST(CameraClock, SenderReportsTellTheDelayThatNoArrivalShows) {
  Reports reports;
  reports.run(minutes(1));
  EXPECT_EQ(reports.clock.status().source, ClockSource::kRtcp);
  EXPECT_LT(std::chrono::abs(reports.error), milliseconds(1));
  EXPECT_LT(std::chrono::abs(reports.clock.status().offset), milliseconds(1));
}

TEST(CameraClock, AWallClockThatIsWrongIsMeasuredAndNotBelieved) {
  for (const Duration ahead :
       {Duration(hours(24) * 365), -Duration(hours(1)), Duration(milliseconds(500)), -Duration(milliseconds(500))}) {
    Reports reports;
    reports.camera_ahead = ahead;
    reports.run(minutes(1));
    EXPECT_EQ(reports.clock.status().source, ClockSource::kEstimated);
    EXPECT_EQ(reports.error, reports.least_delay);
    EXPECT_LT(std::chrono::abs(reports.clock.status().offset - (ahead - reports.least_delay)), milliseconds(1));
  }
}

TEST(CameraClock, SurvivesStampsFromAnEnemy) {
  CameraClock clock(CameraClock::Stamps::kCameras);
  std::mt19937_64 random(7);
  TimePoint arrived = kBegin;
  TimePoint before = TimePoint::min();
  for (int i = 0; i < 100'000; ++i) {
    arrived += Duration(static_cast<std::int64_t>(random() % 50'000'000));
    const Duration stamp(static_cast<std::int64_t>(random()) >> (2 + random() % 60));
    const CaptureTime told = clock.captured(clock.observe(stamp, arrived), arrived);
    ASSERT_LE(told.captured, arrived);
    ASSERT_GE(told.captured, before);
    before = told.captured;
    clock.report({stamp, static_cast<std::int64_t>(random() >> 1), static_cast<std::int64_t>(random() >> 1), arrived});
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
