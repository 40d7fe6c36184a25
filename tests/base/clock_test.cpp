#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

namespace camd::base {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(TimePoints, GoToNanosecondsAndBack) {
  EXPECT_EQ(to_ns(from_ns(0)), 0);
  EXPECT_EQ(to_ns(from_ns(1'234'567'890'123)), 1'234'567'890'123);
  EXPECT_EQ(to_ns(from_ns(-5)), -5);
}

TEST(SystemClock, ReadsTheMonotonicClockThatDriversStampWith) {
  timespec before{};
  timespec after{};
  ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &before), 0);
  const TimePoint now = system_clock().now();
  ASSERT_EQ(clock_gettime(CLOCK_MONOTONIC, &after), 0);
  EXPECT_GE(to_ns(now), before.tv_sec * 1'000'000'000 + before.tv_nsec);
  EXPECT_LE(to_ns(now), after.tv_sec * 1'000'000'000 + after.tv_nsec);
}

TEST(UnixNow, ReadsTheWallClock) {
  const auto wall_ns = [] {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const std::int64_t before = wall_ns();
  const std::int64_t now = unix_now_ns();
  EXPECT_LE(before, now);
  EXPECT_LE(now, wall_ns());
}

TEST(SystemClock, WaitsUntilADeadlineThatHasPassedWithoutBlocking) {
  Mutex mutex;
  CondVar cv;
  MutexLock lock(mutex);
  EXPECT_FALSE(system_clock().wait_until(cv, mutex, system_clock().now() - milliseconds(1)));
}

TEST(ManualClock, StandsStillUntilItIsAdvanced) {
  ManualClock clock(from_ns(100));
  EXPECT_EQ(to_ns(clock.now()), 100);
  EXPECT_EQ(to_ns(clock.now()), 100);
  clock.advance(nanoseconds(23));
  EXPECT_EQ(to_ns(clock.now()), 123);
}

TEST(ManualClock, DoesNotWaitForADeadlineThatIsReached) {
  ManualClock clock(from_ns(100));
  Mutex mutex;
  CondVar cv;
  MutexLock lock(mutex);
  EXPECT_FALSE(clock.wait_until(cv, mutex, from_ns(100)));
  EXPECT_FALSE(clock.wait_until(cv, mutex, from_ns(99)));
  EXPECT_EQ(clock.waiters(), 0);
}

TEST(ManualClock, WakesASleeperOnceTimeIsAdvancedPastItsDeadline) {
  ManualClock clock(from_ns(0));
  Mutex mutex;
  CondVar cv;
  TimePoint woke_at;
  std::thread sleeper([&] {
    MutexLock lock(mutex);
    while (clock.wait_until(cv, mutex, from_ns(1000))) {
    }
    woke_at = clock.now();
  });
  while (clock.waiters() == 0) std::this_thread::yield();
  clock.advance(nanoseconds(999));
  clock.advance(nanoseconds(1));
  sleeper.join();
  EXPECT_EQ(to_ns(woke_at), 1000);
  EXPECT_EQ(clock.waiters(), 0);
}

TEST(ManualClock, LetsASleeperSeeANotificationBeforeItsDeadline) {
  ManualClock clock(from_ns(0));
  Mutex mutex;
  CondVar cv;
  bool ready = false;
  bool timed_out = false;
  std::thread sleeper([&] {
    MutexLock lock(mutex);
    while (!ready && !timed_out) timed_out = !clock.wait_until(cv, mutex, from_ns(1000));
  });
  while (clock.waiters() == 0) std::this_thread::yield();
  {
    MutexLock lock(mutex);
    ready = true;
  }
  cv.notify_one();
  sleeper.join();
  EXPECT_FALSE(timed_out);
  EXPECT_EQ(to_ns(clock.now()), 0);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::base
