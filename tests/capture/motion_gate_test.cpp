#include "capture/motion_gate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "capture_fixtures.hpp"
#include "device/host_device.hpp"

namespace camd::capture {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kWidth = 640;
constexpr int kHeight = 360;

// A grey picture of 640x360: cells of 8, blocks of 16 pixels.
class Picture {
 public:
  explicit Picture(std::uint8_t grey = 100) : pixels_(layout_.size_bytes, std::byte{grey}) {}
  Picture& fill(int left, int top, int width, int height, std::uint8_t grey) {
    for (int y = top; y < top + height; ++y) {
      std::fill_n(pixels_.begin() + static_cast<std::ptrdiff_t>(y) * kWidth + left, width, std::byte{grey});
    }
    return *this;
  }
  Picture& add_noise(double sigma, std::mt19937& random) {
    std::normal_distribution<double> noise(0, sigma);
    for (std::byte& pixel : pixels_) {
      pixel = static_cast<std::byte>(std::clamp<long>(std::lround(static_cast<double>(pixel) + noise(random)), 0, 255));
    }
    return *this;
  }
  [[nodiscard]] const base::PictureLayout& layout() const { return layout_; }
  [[nodiscard]] std::span<const std::byte> pixels() const { return pixels_; }

 private:
  base::PictureLayout layout_ = base::tight_layout(base::PixelFormat::kGray8, kWidth, kHeight);
  std::vector<std::byte> pixels_;
};

// A camera of 25 frames a second before a gate.
class Watched {
 public:
  static constexpr milliseconds kPeriod{40};
  explicit Watched(const config::MotionGate& settings) : gate_(settings) {}
  Watched() : Watched(never_by_itself()) {}
  static config::MotionGate never_by_itself() {
    config::MotionGate settings;
    settings.longest = std::chrono::hours(1);
    return settings;
  }
  bool sees(const Picture& picture, milliseconds after = kPeriod) {
    return sees(picture.layout(), picture.pixels(), after);
  }
  bool sees(const base::PictureLayout& layout, std::span<const std::byte> pixels, milliseconds after = kPeriod) {
    Frame frame;
    frame.sequence = sequence_++;
    frame.captured = now_ += after;
    frame.layout = layout;
    frame.pixels = pixels;
    frame.on_device = pixels.empty();
    return gate_.passes(frame);
  }
  // Until the gate has closed behind what came before.
  void settle(const Picture& picture) {
    while (sees(picture)) {
    }
  }
  // How many of so many frames pass.
  int passing(const Picture& picture, int frames) {
    int passing = 0;
    for (int i = 0; i < frames; ++i) passing += sees(picture) ? 1 : 0;
    return passing;
  }
  [[nodiscard]] std::uint64_t last_sequence() const { return sequence_ - 1; }
  MotionGate& gate() { return gate_; }

 private:
  MotionGate gate_;
  base::TimePoint now_ = base::from_ns(1'000'000'000);
  std::uint64_t sequence_ = 0;
};

TEST(MotionGate, PassesEveryFrameForHalfASecondAfterAChangeAndThenNone) {
  Watched camera;
  const Picture picture;
  std::vector<int> passed;
  for (int i = 0; i < 100; ++i) {
    if (camera.sees(picture)) passed.push_back(i);
  }
  EXPECT_THAT(passed, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));  // at 0 ms to 480 ms
}

TEST(MotionGate, PassesAFrameWhenTheLastOneIsTheLongestPauseOlder) {
  config::MotionGate settings;
  settings.longest = seconds(1);
  Watched camera(settings);
  const Picture picture;
  camera.settle(picture);
  std::vector<int> passed;
  for (int i = 0; i < 100; ++i) {
    if (camera.sees(picture)) passed.push_back(i);
  }
  EXPECT_THAT(passed, ElementsAre(23, 48, 73, 98));  // the last one was two frames before the first of these
}

TEST(MotionGate, ABlockThatDiffersByTheThresholdIsAChangeAndOneLessIsNone) {
  Watched camera;
  camera.settle(Picture(100));
  EXPECT_EQ(camera.passing(Picture(100).fill(32, 64, 16, 16, 103), 50), 0);
  EXPECT_TRUE(camera.sees(Picture(100).fill(32, 64, 16, 16, 104)));
  camera.settle(Picture(100));
  EXPECT_EQ(camera.passing(Picture(100).fill(32, 64, 8, 16, 107), 50),
            0);  // half of a block by twice as much, and 1 less
  EXPECT_TRUE(camera.sees(Picture(100).fill(32, 64, 8, 16, 108)));
}

TEST(MotionGate, TheLastBlocksOfThePictureCountAsTheOthersDo) {
  Watched camera;
  camera.settle(Picture(100));
  EXPECT_TRUE(camera.sees(Picture(100).fill(624, 352, 16, 8, 104)));
}

TEST(MotionGate, AStepOfTheLightIsAChange) {
  Watched camera;
  camera.settle(Picture(100));
  EXPECT_TRUE(camera.sees(Picture(96)));
}

TEST(MotionGate, ASlowChangeOfTheLightPassesWheneverItHasAddedUp) {
  Watched camera;
  camera.settle(Picture(100));
  std::vector<int> passed;
  for (int i = 0; i < 200; ++i) {  // a grey level in 20 frames
    if (camera.sees(Picture(static_cast<std::uint8_t>(100 + i / 20)))) passed.push_back(i);
  }
  // Each change of 4 opens the gate for half a second, in which the level that was last seen goes up by none.
  std::vector<int> expected;
  for (const int change : {80, 160}) {
    for (int i = 0; i < 13; ++i) expected.push_back(change + i);
  }
  EXPECT_EQ(passed, expected);
}

TEST(MotionGate, NoiseOfASensorIsNoChange) {
  Watched camera;
  std::mt19937 random(1);
  int passed = 0;
  for (int i = 0; i < 113; ++i) passed += camera.sees(Picture(100).add_noise(5, random)) ? 1 : 0;
  EXPECT_EQ(passed, 13);  // those of the first half second
}

TEST(MotionGate, AnObjectThatMovesThroughNoiseIsSeenInEveryFrame) {
  Watched camera;
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) (void)camera.sees(Picture(100).add_noise(5, random));
  for (int x = 100; x < 500; x += 10) {
    EXPECT_TRUE(camera.sees(Picture(100).fill(x, 100, 20, 40, 150).add_noise(5, random))) << x;
  }
}

TEST(MotionGate, WhatCreepsAddsUpBecauseTheLastFrameThatPassedIsComparedWith) {
  Watched camera;
  const auto at = [](int x) { return Picture(100).fill(x, 100, 64, 64, 200); };
  camera.settle(at(96));
  EXPECT_FALSE(camera.sees(at(96)));
  // A pixel's width of 100 grey levels along a block of 16: 6 levels on average.
  EXPECT_TRUE(camera.sees(at(97)));
}

TEST(MotionGate, WhatChangesOutsideOfTheRegionDoesNotCount) {
  config::MotionGate settings = Watched::never_by_itself();
  settings.region = {{0, 0.5}, {1, 0.5}, {1, 1}, {0, 1}};
  Watched camera(settings);
  camera.settle(Picture(100));
  EXPECT_EQ(camera.passing(Picture(100).fill(0, 0, 640, 176, 250), 50), 0);
  EXPECT_TRUE(camera.sees(Picture(100).fill(0, 344, 16, 16, 104)));
}

TEST(MotionGate, ARegionSmallerThanABlockWatchesTheBlocksThatItsCornersLieIn) {
  config::MotionGate settings = Watched::never_by_itself();
  settings.region = {{0.501, 0.501}, {0.502, 0.501}, {0.502, 0.502}};  // in the block from (320, 176)
  Watched camera(settings);
  camera.settle(Picture(100));
  EXPECT_EQ(camera.passing(Picture(100).fill(0, 0, 640, 176, 250), 50), 0);
  EXPECT_TRUE(camera.sees(Picture(100).fill(320, 176, 16, 16, 104)));
}

TEST(MotionGate, APictureOfAnotherSizeIsAChange) {
  Watched camera;
  camera.settle(Picture(100));
  const base::PictureLayout other = base::tight_layout(base::PixelFormat::kGray8, 320, 180);
  const std::vector<std::byte> pixels(other.size_bytes, std::byte{100});
  EXPECT_TRUE(camera.sees(other, pixels));
}

TEST(MotionGate, PicturesThatCannotBeReadPassAndTheNextOneToo) {
  Watched camera;
  const Picture picture;
  camera.settle(picture);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(camera.sees(picture.layout(), {})) << "in a device's memory";
  EXPECT_TRUE(camera.sees(picture));
  const base::PictureLayout tiny = base::tight_layout(base::PixelFormat::kGray8, 4, 4);
  const std::vector<std::byte> pixels(tiny.size_bytes);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(camera.sees(tiny, pixels)) << "smaller than a cell";
}

TEST(MotionGate, PassesTheNextFrameWhenTheNewestThatPassedWasLost) {
  Watched camera;
  const Picture picture;
  camera.settle(picture);
  const std::uint64_t last = camera.last_sequence() - 1;  // the one before was held back
  camera.gate().lost(last - 1);
  EXPECT_FALSE(camera.sees(picture)) << "what it showed was shown by the one after it";
  camera.gate().lost(last);
  EXPECT_TRUE(camera.sees(picture));
  EXPECT_FALSE(camera.sees(picture));
}

TEST(MotionGate, ClosesHalfASecondAfterAClockHasGoneBackFarEvenIfAChangeCameJustBefore) {
  Watched camera;
  const Picture still;
  camera.settle(still);
  EXPECT_TRUE(camera.sees(Picture(200)));  // a change
  EXPECT_TRUE(camera.sees(Picture(200), -seconds(60)));
  int passed = 0;
  for (int i = 0; i < 50; ++i) passed += camera.sees(Picture(200)) ? 1 : 0;  // two seconds
  EXPECT_EQ(passed, 12);                                                     // those of 40 to 480 ms
}

TEST(MotionGate, PassesAFrameOfAClockThatHasGoneBack) {
  Watched camera;
  const Picture picture;
  camera.settle(picture);
  EXPECT_TRUE(camera.sees(picture, milliseconds(-400)));
}

// ---- In the ring

class GatedRing : public ::testing::Test, protected FrameGate {
 protected:
  bool passes(const Frame& frame) noexcept override {
    asked_.push_back(frame.sequence);
    return open_;
  }
  void lost(std::uint64_t sequence) noexcept override { lost_.push_back(sequence); }
  FrameRing& make() {
    FrameRing::Options options;
    options.gate = this;
    ring_ = std::make_unique<FrameRing>(*device_, observer_, options);
    return *ring_;
  }
  void produce() {
    std::optional<FillLease> lease = ring_->begin();
    ASSERT_TRUE(lease);
    (void)lease->data(layout_);
    lease->publish(base::from_ns(1), base::from_ns(1));
  }
  const base::PictureLayout layout_ = base::tight_layout(base::PixelFormat::kGray8, 1, 1);
  const std::unique_ptr<device::HostDevice> device_ = device::make_host_device(base::system_clock());
  testing::CountingObserver observer_;
  bool open_ = true;
  std::vector<std::uint64_t> asked_;
  std::vector<std::uint64_t> lost_;
  std::unique_ptr<FrameRing> ring_;
};

TEST_F(GatedRing, AFrameThatIsHeldBackIsCountedAsGatedAndNeverReady) {
  make();
  produce();
  open_ = false;
  for (int i = 0; i < 10; ++i) produce();
  EXPECT_EQ(observer_.captured(), 11);
  EXPECT_EQ(observer_.ready(), 1);
  EXPECT_EQ(observer_.dropped(RingDrop::kGated), 10);
  EXPECT_EQ(observer_.dropped(), 10);
  EXPECT_EQ(ring_->occupied(), 1);
  EXPECT_EQ(ring_->take()->frame().sequence, 0U);
  EXPECT_EQ(asked_.size(), 11U);
  EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(GatedRing, TellsOfTheFrameWhoseSlotItTakesForAnotherAndNotOfThoseThatANewerOneSupersedes) {
  make();
  for (int i = 0; i < 3; ++i) produce();
  EXPECT_THAT(lost_, IsEmpty());
  produce();
  EXPECT_THAT(lost_, ElementsAre(0));
  { const auto taken = ring_->take(); }
  EXPECT_EQ(observer_.dropped(RingDrop::kSuperseded), 3);
  EXPECT_THAT(lost_, ElementsAre(0));
}

TEST_F(GatedRing, AFrameThatAClosedRingDropsIsNotGated) {
  make();
  open_ = false;
  std::optional<FillLease> lease = ring_->begin();
  (void)lease->data(layout_);
  ring_->close(false);
  lease->publish(base::from_ns(1), base::from_ns(1));
  EXPECT_EQ(observer_.dropped(RingDrop::kClosed), 1);
  EXPECT_EQ(observer_.dropped(RingDrop::kGated), 0);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::capture
