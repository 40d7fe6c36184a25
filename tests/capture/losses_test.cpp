// What was lost before a frame was captured: the counts, and a real server that loses packets on purpose.
#include <gtest/gtest.h>

#include <vector>

#include "capture/picture_losses.hpp"
#include "source_fixture.hpp"
#ifdef CAMD_RTSP_SERVER
#include "rtsp_camera.hpp"
#endif

namespace camd::capture {
namespace CAMD_TEST_FILE {

using base::Duration;
using base::TimePoint;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A stream of pictures, one every 40 ms, that come out of the decoder at once.
class Stream {
 public:
  // A picture of which everything has arrived, or not; false in `shown`: the decoder gives nothing for it.
  struct Step {
    bool key = false;
    bool holed = false;
    bool shown = true;
    bool corrupted = false;
  };
  // Whether it is damaged; false as well where it is not shown.
  bool picture(const Step& step) {
    ++number_;
    losses.begin(name(), milliseconds(40 * number_), step.holed);
    if (step.key) losses.is_key(name());
    return step.shown && losses.shown(name(), step.corrupted, now());
  }
  // Pictures of which nothing arrives, of `packets` packets together.
  void gone(int pictures, unsigned packets) {
    number_ += pictures;
    losses.lost(packets, false);
  }
  void go(int good) {
    for (int i = 0; i < good; ++i) EXPECT_FALSE(picture({})) << number_;
  }

  PictureLosses losses;

 private:
  [[nodiscard]] PictureLosses::Name name() const { return 1000 * static_cast<PictureLosses::Name>(number_); }
  [[nodiscard]] TimePoint now() const { return TimePoint(milliseconds(40 * number_)); }
  int number_ = 0;
};

TEST(PictureLosses, CountNothingInAWholeStream) {
  Stream stream;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(stream.picture({.key = i % 15 == 0}));
  EXPECT_EQ(stream.losses.totals().packets_lost, 0U);
  EXPECT_EQ(stream.losses.totals().frames_damaged, 0U);
  EXPECT_EQ(stream.losses.totals().frames_missing, 0U);
}

TEST(PictureLosses, DamageLastsUntilTheNextKeyFrame) {
  Stream stream;
  EXPECT_FALSE(stream.picture({.key = true}));
  stream.go(3);
  stream.losses.lost(2, true);
  EXPECT_TRUE(stream.picture({.holed = true}));
  EXPECT_TRUE(stream.picture({}));
  EXPECT_FALSE(stream.picture({.key = true}));
  stream.go(3);
  EXPECT_EQ(stream.losses.totals().packets_lost, 2U);
  EXPECT_EQ(stream.losses.totals().frames_damaged, 2U);
  EXPECT_EQ(stream.losses.totals().frames_missing, 0U);
}

TEST(PictureLosses, KeyFrameWithAHoleIsDamagedItself) {
  Stream stream;
  stream.go(2);
  stream.losses.lost(1, false);
  EXPECT_TRUE(stream.picture({.key = true, .holed = true}));
  EXPECT_TRUE(stream.picture({}));
}

TEST(PictureLosses, DecodersThatSayCorruptedAreBelieved) {
  Stream stream;
  stream.go(2);
  EXPECT_TRUE(stream.picture({.corrupted = true}));
  EXPECT_TRUE(stream.picture({}));
  EXPECT_FALSE(stream.picture({.key = true}));
  EXPECT_TRUE(stream.losses.shown_unnamed(true));
  EXPECT_FALSE(stream.losses.shown_unnamed(false));
  EXPECT_EQ(stream.losses.totals().frames_damaged, 3U);
}

TEST(PictureLosses, PicturesThatNeverArrivedAreCountedByTheGap) {
  Stream stream;
  stream.go(3);
  stream.gone(4, 7);
  EXPECT_TRUE(stream.picture({.holed = true}));
  EXPECT_EQ(stream.losses.totals().packets_lost, 7U);
  EXPECT_EQ(stream.losses.totals().frames_missing, 4U);
}

TEST(PictureLosses, CamerasMayTakeAPauseWithoutALoss) {
  PictureLosses fresh;
  fresh.begin(1, milliseconds(0), false);
  EXPECT_FALSE(fresh.shown(1, false, TimePoint(milliseconds(0))));
  fresh.begin(2, milliseconds(40), false);
  EXPECT_FALSE(fresh.shown(2, false, TimePoint(milliseconds(40))));
  fresh.begin(3, seconds(60), false);
  EXPECT_FALSE(fresh.shown(3, false, TimePoint(seconds(60))));
  EXPECT_EQ(fresh.totals().frames_missing, 0U);
}

TEST(PictureLosses, PicturesThatADecoderGivesUpAreMissing) {
  Stream stream;
  stream.go(3);
  EXPECT_FALSE(stream.picture({.shown = false}));
  EXPECT_FALSE(stream.picture({.shown = false}));
  EXPECT_TRUE(stream.picture({}));  // built on them
  EXPECT_EQ(stream.losses.totals().frames_missing, 2U);
  EXPECT_EQ(stream.losses.totals().frames_damaged, 1U);
}

TEST(PictureLosses, PicturesThatAreShownInAnotherOrderAreNotMissing) {
  PictureLosses losses;
  // Decoded I P B B, shown I B B P.
  const std::vector<std::pair<PictureLosses::Name, int>> decoded = {{10, 0}, {40, 120}, {20, 40}, {30, 80}};
  for (const auto& [name, ms] : decoded) losses.begin(name, milliseconds(ms), false);
  for (const PictureLosses::Name name : {10U, 20U, 30U, 40U}) {
    EXPECT_FALSE(losses.shown(name, false, TimePoint(milliseconds(name))));
  }
  EXPECT_EQ(losses.totals().frames_missing, 0U);
}

TEST(PictureLosses, WhatWasLostBeforeTheFirstPictureOfAConnectionIsNotCounted) {
  Stream stream;
  for (int i = 0; i < 14; ++i) EXPECT_FALSE(stream.picture({.shown = false}));
  EXPECT_FALSE(stream.picture({.key = true}));
  EXPECT_EQ(stream.losses.totals().frames_missing, 0U);
  stream.losses.lost(1, true);
  EXPECT_TRUE(stream.picture({.holed = true}));
  stream.losses.connect();
  EXPECT_FALSE(stream.picture({.shown = false}));
  EXPECT_FALSE(stream.picture({.key = true}));
  EXPECT_EQ(stream.losses.totals().frames_missing, 0U);
  EXPECT_EQ(stream.losses.totals().frames_damaged, 1U);
}

TEST(PictureLosses, HolesInADriversNumbersAreMissingPictures) {
  PictureLosses losses;
  losses.connect();
  for (const std::uint64_t number : {7U, 8U, 9U, 12U, 13U, 20U}) losses.driver_gave(number);
  EXPECT_EQ(losses.totals().frames_missing, 8U);
  EXPECT_EQ(losses.totals().packets_lost, 0U);
}

TEST(PictureLosses, ADriverMayBeginItsNumbersAnew) {
  PictureLosses losses;
  losses.connect();
  for (const std::uint64_t number : {100U, 101U, 0U, 1U, 1'000'000'000U}) losses.driver_gave(number);
  losses.connect();
  losses.driver_gave(1'000'000'005U);
  EXPECT_EQ(losses.totals().frames_missing, 0U);
}

TEST(PictureLosses, DamageEndsWhereAStreamHasNoKeyFrames) {
  Stream stream;
  stream.go(3);
  stream.losses.lost(1, true);
  EXPECT_TRUE(stream.picture({.holed = true}));
  int damaged = 0;
  for (int i = 0; i < 500; ++i) damaged += stream.picture({}) ? 1 : 0;
  EXPECT_EQ(damaged, 250);  // 10 s
}

// ---- RTSP

#ifdef CAMD_RTSP_SERVER
class RtspLosses : public testing::SourceTest, public ::testing::WithParamInterface<config::RtspTransport> {
 protected:
  void open(config::DamagedMode damaged) {
    ASSERT_TRUE(server_.start());
    config::RtspSource source;
    source.url = server_.url();
    source.transport = GetParam();
    source.recovery.timeout = seconds(20);
    make(source, "cam", damaged);
    source_->start();
  }
  // Takes `count` frames; how many of them were damaged.
  int damaged_of(int count) {
    int damaged = 0;
    for (int i = 0; i < count; ++i) {
      const auto lease = next();
      EXPECT_TRUE(lease) << states_.last_reason();
      if (!lease) return -1;
      damaged += lease->frame().damaged ? 1 : 0;
    }
    return damaged;
  }
  void expect_nothing_lost() {
    EXPECT_EQ(damaged_of(30), 0);
    const UpstreamLosses losses = source_->losses();
    EXPECT_EQ(losses.packets_lost, 0U);
    EXPECT_EQ(losses.frames_damaged, 0U);
    EXPECT_EQ(losses.frames_missing, 0U);
  }
  testing::RtspCamera server_;
};

TEST_P(RtspLosses, AreCountedAndDamagedPicturesMarked) {
  open(config::DamagedMode::kKeep);
  expect_nothing_lost();
  ASSERT_EQ(server_.tell("drop 10"), "ok drop 10");
  const int marked = damaged_of(60);
  ASSERT_EQ(server_.tell("drop 0"), "ok drop 0");
  EXPECT_GT(marked, 0);
  EXPECT_GT(source_->losses().packets_lost, 0U);
  EXPECT_GT(source_->losses().frames_damaged, 0U);
  // A key frame is at most 15 pictures away.
  (void)damaged_of(40);
  EXPECT_EQ(damaged_of(15), 0);
}

TEST_P(RtspLosses, DamagedPicturesAreDroppedWhereAskedAndCounted) {
  open(config::DamagedMode::kDrop);
  expect_nothing_lost();
  ASSERT_EQ(server_.tell("drop 10"), "ok drop 10");
  EXPECT_TRUE(testing::eventually([&] { return source_->losses().frames_damaged >= 20; }, seconds(20)));
  ASSERT_EQ(server_.tell("drop 0"), "ok drop 0");
  EXPECT_EQ(damaged_of(40), 0);
  source_->stop();
  EXPECT_EQ(static_cast<std::uint64_t>(observer_.dropped(RingDrop::kNotFilled)), source_->losses().frames_damaged);
}

TEST_P(RtspLosses, PacketsThatCameWrongDamagePictures) {
  open(config::DamagedMode::kKeep);
  expect_nothing_lost();
  ASSERT_EQ(server_.tell("corrupt 30"), "ok corrupt 30");
  EXPECT_TRUE(testing::eventually(
      [&] {
        (void)ring_->take();
        const UpstreamLosses losses = source_->losses();
        return losses.frames_damaged + losses.frames_missing > 0;
      },
      seconds(20)));
}

INSTANTIATE_TEST_SUITE_P(Transports, RtspLosses,
                         ::testing::Values(config::RtspTransport::kTcp, config::RtspTransport::kUdp),
                         [](const auto& one) { return one.param == config::RtspTransport::kTcp ? "Tcp" : "Udp"; });
#else
TEST(RtspLosses, NeedAServerToBeTested) { GTEST_SKIP() << "built without libgstrtspserver-1.0-dev"; }
#endif

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
