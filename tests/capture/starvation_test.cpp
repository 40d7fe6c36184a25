// Cameras that run and deliver nothing.
#include "capture/starvation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "bad_server.hpp"
#include "capture/gst_source.hpp"
#include "source_fixture.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr seconds kTimeout(4);
TimePoint at(double s) { return TimePoint(milliseconds(static_cast<int>(s * 1000))); }

TEST(Starvation, IsNoneWhereFramesAreDelivered) {
  Starvation starvation(kTimeout);
  FrameFates fates;
  starvation.begin(at(0), fates);
  for (int i = 1; i < 100; ++i) {
    ++fates.captured;
    ++(i % 10 == 0 ? fates.delivered : fates.too_old);
    starvation.look(at(0.1 * i), fates, seconds(0));
    EXPECT_FALSE(starvation.starved()) << i;
  }
}

TEST(Starvation, BeginsWhenNothingIsDeliveredForHalfTheTimeout) {
  Starvation starvation(kTimeout);
  FrameFates fates{.captured = 50, .delivered = 50};
  starvation.begin(at(0), fates);
  for (int i = 1; i < 20; ++i) {
    ++fates.captured, ++fates.too_old;
    starvation.look(at(0.1 * i), fates, seconds(0));
    EXPECT_FALSE(starvation.starved()) << i;
  }
  starvation.look(at(2), fates, seconds(0));
  EXPECT_TRUE(starvation.starved());
  EXPECT_EQ(starvation.reason(),
            "nothing is delivered: all frames come later than `pipeline.max_age` allows (too_old)");
  EXPECT_FALSE(starvation.wants_another_try());
  ++fates.captured, ++fates.delivered;
  starvation.look(at(2.1), fates, seconds(0));
  EXPECT_FALSE(starvation.starved());
}

TEST(Starvation, IsNoneWhereNothingIsCaptured) {
  Starvation starvation(kTimeout);
  const FrameFates fates{.captured = 50, .delivered = 50};
  starvation.begin(at(0), fates);
  starvation.look(at(100), fates, seconds(0));
  EXPECT_FALSE(starvation.starved());
}

TEST(Starvation, DoesNotCountTheTimeInWhichCamdDidNotRun) {
  Starvation starvation(kTimeout);
  FrameFates fates{.captured = 50, .delivered = 50};
  starvation.begin(at(0), fates);
  starvation.look(at(0.5), fates, seconds(0));
  ++fates.captured, ++fates.delivered;
  starvation.look(at(1), fates, seconds(0));
  fates.captured += 300, fates.too_old += 300;  // its backlog
  starvation.look(at(11.5), fates, seconds(10));
  EXPECT_FALSE(starvation.starved());
  EXPECT_FALSE(starvation.wants_another_try());
  starvation.look(at(13), fates, seconds(0));
  EXPECT_TRUE(starvation.starved());
}

TEST(Starvation, FramesThatAreOnlySupersededAreGivenTheWholeTimeout) {
  Starvation starvation(kTimeout);
  starvation.begin(at(0), {});
  starvation.look(at(0), {}, seconds(0));
  const FrameFates fates{.captured = 90, .superseded = 89};
  starvation.look(at(3.9), fates, seconds(0));
  EXPECT_FALSE(starvation.starved());
  starvation.look(at(4), fates, seconds(0));
  EXPECT_TRUE(starvation.starved());
  EXPECT_EQ(starvation.reason(),
            "nothing is delivered: an earlier frame does not come out of the device or the plug-ins (superseded)");
  EXPECT_FALSE(starvation.wants_another_try());
}

TEST(Starvation, FramesThatAreGatedAreNoHungerHoweverLongNothingMoves) {
  Starvation starvation(kTimeout);
  FrameFates fates{.captured = 50, .delivered = 50};
  starvation.begin(at(0), fates);
  for (int i = 1; i < 100; ++i) {
    ++fates.captured, ++fates.gated;
    starvation.look(at(0.1 * i), fates, seconds(0));
  }
  ++fates.captured, ++fates.too_old;  // what came through at last
  starvation.look(at(10), fates, seconds(0));
  EXPECT_FALSE(starvation.starved());
  fates.captured += 10, fates.too_old += 1, fates.gated += 9;
  starvation.look(at(12), fates, seconds(0));
  EXPECT_TRUE(starvation.starved()) << "two seconds after the last time that nothing was wrong";
}

TEST(Starvation, TriesTheSourceAnewLessAndLessOften) {
  Starvation starvation(kTimeout);
  FrameFates fates;
  std::vector<double> tries;
  double opened = 0;
  for (int step = 0; step < 600; ++step) {
    const double now = 0.5 * step;
    if (now == opened) starvation.begin(at(now), fates);
    ++fates.captured, ++fates.source_error;
    starvation.look(at(now), fates, seconds(0));
    if (!starvation.wants_another_try()) continue;
    tries.push_back(now - opened);
    opened = now + 0.5;
  }
  EXPECT_THAT(tries, ElementsAre(4, 8, 16, 32, 60, 60, 60));
  ++fates.captured, ++fates.delivered;
  starvation.look(at(400), fates, seconds(0));
  fates.captured += 2, fates.source_error += 2;
  starvation.look(at(404), fates, seconds(0));
  EXPECT_TRUE(starvation.wants_another_try());
}

TEST(Starvation, LeavesTheSourceAloneWherePluginsFail) {
  Starvation starvation(kTimeout);
  starvation.begin(at(0), {});
  starvation.look(at(100), {.captured = 1000, .too_old = 400, .plugin_error = 600}, seconds(0));
  EXPECT_TRUE(starvation.starved());
  EXPECT_EQ(starvation.reason(), "nothing is delivered: the plug-ins fail with every frame (plugin_error)");
  EXPECT_FALSE(starvation.wants_another_try());
}

class StarvedSource : public testing::SourceTest {
 protected:
  // The frames so far, all of which became what `fate` says.
  void every_frame(std::uint64_t FrameFates::*fate) {
    fate_ = fate;
    states_.set_fates([this] {
      FrameFates fates;
      fates.captured = static_cast<std::uint64_t>(observer_.captured());
      fates.*(fate_.load()) = fates.captured;
      return fates;
    });
  }
  std::atomic<std::uint64_t FrameFates::*> fate_{nullptr};
};

TEST_F(StarvedSource, IsOpenedAnewWhereAllItsFramesAreTooOld) {
  every_frame(&FrameFates::too_old);
  config::GStreamerSource source;
  source.pipeline = "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1";
  source.recovery.timeout = milliseconds(400);
  source.recovery.reconnect_initial = source.recovery.reconnect_max = milliseconds(10);
  make(source);
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning, 2));
  source_->stop();
  const std::vector<testing::StateRecorder::Entry> entries = states_.entries();
  ASSERT_GE(entries.size(), 5U);
  EXPECT_EQ(entries[1].state, SourceState::kRunning);
  EXPECT_EQ(entries[2].state, SourceState::kStarved);
  EXPECT_EQ(entries[2].reason, "nothing is delivered: all frames come later than `pipeline.max_age` allows (too_old)");
  EXPECT_EQ(entries[3].state, SourceState::kReconnecting);
  EXPECT_EQ(entries[3].reason, entries[2].reason);
}

TEST_F(StarvedSource, IsLeftOpenWherePluginsFailAndRunsAgainWhenTheyWork) {
  every_frame(&FrameFates::plugin_error);
  config::GStreamerSource source;
  source.pipeline = "videotestsrc is-live=true ! video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1";
  source.recovery.timeout = milliseconds(400);
  make(source);
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kStarved));
  EXPECT_EQ(states_.last_reason(), "nothing is delivered: the plug-ins fail with every frame (plugin_error)");
  const int captured = observer_.captured();
  EXPECT_TRUE(testing::eventually([&] { return observer_.captured() > captured + 30; }));
  fate_ = &FrameFates::delivered;
  ASSERT_TRUE(states_.wait_for(SourceState::kRunning, 2));
  source_->stop();
  EXPECT_THAT(states_.states(),
              ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kStarved, SourceState::kRunning));
}

// A camera whose packets hold no picture.
TEST_F(StarvedSource, IsOneWhosePacketsCannotBeDecoded) {
  const testing::BadServer server(testing::bad_rtsp_camera());
  config::RtspSource rtsp;
  rtsp.url = "rtsp://127.0.0.1:" + std::to_string(server.port()) + "/x";
  rtsp.recovery.timeout = milliseconds(400);
  rtsp.recovery.reconnect_initial = rtsp.recovery.reconnect_max = milliseconds(10);
  config::Camera camera;
  camera.name = "cam";
  camera.source = rtsp;
  make(rtsp);  // for its ring
  // Long enough for packets to come on a busy machine: without any the reason would be another.
  source_ = make_gst_source(camera, 0, *ring_, states_, base::system_clock(), milliseconds(3000));
  source_->start();
  ASSERT_TRUE(states_.wait_for(SourceState::kReconnecting));
  source_->stop();
  EXPECT_THAT(states_.states(), ElementsAre(SourceState::kStarting, SourceState::kStarved, SourceState::kReconnecting));
  EXPECT_EQ(states_.last_reason(), "packets arrive, but no picture can be decoded from them");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
