#include "capture/test_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "capture/test_pattern.hpp"
#include "capture_fixtures.hpp"
#include "device/host_device.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::CountingObserver;
using ::testing::ElementsAre;
using testing::eventually;
using testing::StateRecorder;

class TestSourceTest : public ::testing::Test {
 protected:
  // The last members die first: source before ring.
  void make(const config::TestSource& settings, const base::Clock& clock) {
    config::Camera camera;
    camera.name = "cam";
    camera.source = settings;
    ring_ = std::make_unique<FrameRing>(
        *device_, observer_,
        FrameRing::Options{0, 3, is_lossless(camera) ? RingPolicy::kLossless : RingPolicy::kNewestWins,
                           device::HostMemory::kPinned});
    source_ = make_source(camera, 0, *ring_, states_, clock);
  }
  // Waits for the next frame and takes it.
  SlotLease next() {
    SlotLease lease;
    EXPECT_TRUE(eventually([&] {
      auto taken = ring_->take();
      if (taken) lease = std::move(*taken);
      return static_cast<bool>(lease);
    }));
    return lease;
  }
  static config::TestSource small(std::int64_t frames, bool realtime) {
    config::TestSource settings;
    settings.width = 64;
    settings.height = 48;
    settings.fps = 30;
    settings.frames = frames;
    settings.realtime = realtime;
    return settings;
  }

  std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
  CountingObserver observer_;
  StateRecorder states_;
  base::ManualClock manual_;
  std::unique_ptr<FrameRing> ring_;
  std::unique_ptr<FrameSource> source_;
};

TEST_F(TestSourceTest, IsStarvedWhileNothingIsDelivered) {
  std::atomic<bool> fail{true};
  states_.set_fates([&] {
    FrameFates fates;
    fates.captured = static_cast<std::uint64_t>(observer_.captured());
    (fail ? fates.plugin_error : fates.delivered) = fates.captured;
    return fates;
  });
  make(small(0, true), manual_);
  source_->start();
  for (int i = 0; i < 100; ++i) {
    (void)next();
    manual_.advance(milliseconds(34));
  }
  ASSERT_TRUE(states_.wait_for(SourceState::kStarved));
  fail = false;
  for (int i = 0; i < 10; ++i) {
    (void)next();
    manual_.advance(milliseconds(34));
  }
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning, 2));
  source_->stop();
  EXPECT_THAT(states_.states(),
              ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kStarved, SourceState::kRunning));
}

TEST_F(TestSourceTest, PacesFramesOnTheInjectedClockWithoutDrift) {
  make(small(0, true), manual_);
  const base::TimePoint start = manual_.now();
  source_->start();
  for (std::int64_t k = 0; k < 90; ++k) {
    const auto lease = next();
    const base::Duration due(std::llround(static_cast<double>(k) * 1e9 / 30));
    EXPECT_EQ(lease.frame().sequence, static_cast<std::uint64_t>(k));
    EXPECT_EQ(lease.frame().captured - start, due);
    const auto stamp = read_test_pattern(lease.frame().layout, lease.frame().pixels);
    ASSERT_TRUE(stamp);
    EXPECT_EQ(stamp->sequence, static_cast<std::uint64_t>(k));
    EXPECT_EQ(stamp->birth_ns, base::to_ns(lease.frame().captured));
    // One nanosecond early nothing comes, on time it does.
    const base::Duration next_due(std::llround(static_cast<double>(k + 1) * 1e9 / 30));
    manual_.advance(next_due - due - base::Duration(1));
    EXPECT_EQ(observer_.captured(), k + 1);
    manual_.advance(base::Duration(1));
  }
  source_->stop();
}

TEST_F(TestSourceTest, MakesUpForASmallDelay) {
  make(small(0, true), manual_);
  source_->start();
  (void)next();
  manual_.advance(milliseconds(101));  // three frames are due
  EXPECT_TRUE(eventually([this] { return observer_.captured() == 4; }));
  manual_.advance(milliseconds(32));  // 133 ms: the fourth is due at 133.3
  EXPECT_FALSE(eventually([this] { return observer_.captured() > 4; }, seconds(0)));
  source_->stop();
}

TEST_F(TestSourceTest, MovesItsScheduleAfterALongStop) {
  make(small(0, true), manual_);
  source_->start();
  (void)next();
  manual_.advance(std::chrono::hours(1));
  ASSERT_TRUE(eventually([this] { return observer_.captured() >= 2; }));
  manual_.advance(milliseconds(34));
  ASSERT_TRUE(eventually([this] { return observer_.captured() >= 3; }));
  source_->stop();
  EXPECT_EQ(observer_.captured(), 3);
}

TEST_F(TestSourceTest, GivesTheNumberOfFramesAskedForAndEnds) {
  make(small(100, false), base::system_clock());
  source_->start();
  for (std::uint64_t k = 0; k < 100; ++k) {
    const auto lease = next();
    EXPECT_EQ(lease.frame().sequence, k);
    EXPECT_EQ(read_test_pattern(lease.frame().layout, lease.frame().pixels)->sequence, k);
    EXPECT_LE(lease.frame().captured, lease.frame().arrived);
  }
  ASSERT_TRUE(states_.wait_for(SourceState::kEnded));
  EXPECT_EQ(states_.last_reason(), "all 100 frames were made");
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kEnded));
  EXPECT_EQ(observer_.captured(), 100);
  EXPECT_EQ(observer_.dropped(), 0);
}

TEST_F(TestSourceTest, StopsWhileItWaitsForASlotOfALosslessRing) {
  make(small(0, false), base::system_clock());
  source_->start();
  ASSERT_TRUE(eventually([this] { return observer_.captured() == 4; }));  // three slots and one that waits
  source_->stop();
  source_->stop();
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 1);
  EXPECT_EQ(observer_.ready(), 3);
}

TEST_F(TestSourceTest, StopsWhileItWaitsForItsNextFrame) {
  make(small(0, true), manual_);
  source_->start();
  (void)next();
  source_->stop();
  EXPECT_EQ(observer_.captured(), 1);
}

TEST_F(TestSourceTest, StopsByItselfWhenTheRingIsClosed) {
  make(small(0, false), base::system_clock());
  source_->start();
  ASSERT_TRUE(eventually([this] { return observer_.captured() == 4; }));
  ring_->close(false);
  ASSERT_TRUE(eventually([this] { return ring_->occupied() == 0; }));
  source_->stop();
  EXPECT_EQ(observer_.captured(), 4);
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 4);
}

TEST_F(TestSourceTest, MakesEveryPixelFormat) {
  using base::PixelFormat;
  for (const PixelFormat format : {PixelFormat::kBgr, PixelFormat::kRgb, PixelFormat::kNv12, PixelFormat::kI420,
                                   PixelFormat::kYuy2, PixelFormat::kGray8}) {
    config::TestSource settings = small(1, false);
    settings.format = format;
    source_.reset();
    make(settings, base::system_clock());
    source_->start();
    const auto lease = next();
    EXPECT_TRUE(lease.frame().layout == base::tight_layout(format, 64, 48));
    EXPECT_EQ(read_test_pattern(lease.frame().layout, lease.frame().pixels)->sequence, 0U);
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
