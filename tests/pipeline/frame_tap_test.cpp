// What those who look on get of a pipeline's frames, and what frames of nobody cost.
#include "pipeline/core/frame_tap.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/pipeline/rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using test::Rig;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using FrameTaps = test::OnStreams;
INSTANTIATE_TEST_SUITE_P(Pipeline, FrameTaps, testing::Bool(), test::name_of_streams);

// Eight frames, whose first bytes are their number, with a detection each.
struct TappedRig {
  TappedRig()
      : plugin([this](const camd_frame& frame, const camd_tensors&, camd_results& results, camd_error&) {
          results.items[0] = {};
          results.items[0].box[0] = static_cast<float>(frame.sequence);
          results.items[0].score = 1;
          results.count = 1;
          if (at_frame) at_frame(frame);
          return frame.sequence == failing ? CAMD_ERROR_FAILED : CAMD_OK;
        }) {
    plugin.add_to(rig.plugins);
  }
  void run() {
    test::declare(rig.plugins, rig.engine);
    rig.made = std::make_unique<Pipeline>(rig.lanes(), rig.plugins, rig.clock,
                                          std::vector{test::fake_camera("door", test::publishes(rig.clock, 8), true)},
                                          rig.options, nullptr, &tap);
    if (before_start) before_start();
    rig.made->start();
    EXPECT_EQ(rig.made->wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
    rig.made->stop(true);
  }
  std::vector<std::uint64_t> pictures() {
    std::vector<std::uint64_t> found;
    tap.take_pictures([&found](const TappedPicture& picture) {
      std::uint64_t number = 0;
      std::memcpy(&number, picture.pixels, sizeof(number));
      EXPECT_EQ(number, picture.sequence);
      EXPECT_STREQ(picture.camera, "door");
      found.push_back(number);
    });
    return found;
  }

  FrameTap tap;
  std::uint64_t failing = 99;
  std::function<void(const camd_frame&)> at_frame;
  std::function<void()> before_start;
  test::FakePlugin plugin;
  Rig rig;
};

TEST_P(FrameTaps, GetEveryDeliveredFrameInOrderAndNoneThatWasDropped) {
  TappedRig tapped;
  tapped.failing = 3;
  tapped.tap.watch(true);
  tapped.run();
  TappedFrames frames;
  tapped.tap.take_frames(frames);
  ASSERT_EQ(frames.size(), 7U);
  for (std::size_t i = 0; i < 7; ++i) {
    const std::string number = std::to_string(i < 3 ? i : i + 1);
    EXPECT_THAT(frames.json(i), HasSubstr(R"({"camera":"door","seq":)" + number + ","));
    EXPECT_THAT(frames.json(i), HasSubstr(R"("box":[)" + number + ",0,0,0]"));
    EXPECT_FALSE(frames.has_picture(i));
  }
  EXPECT_EQ(frames.missed(), 0U);
  tapped.tap.take_frames(frames);
  EXPECT_EQ(frames.size(), 0U);
  EXPECT_THAT(tapped.pictures(), ElementsAre());
}

TEST_P(FrameTaps, GetNothingWhereNobodyLooks) {
  TappedRig tapped;
  tapped.tap.watch(true);
  tapped.tap.watch(true);
  tapped.tap.watch(false);
  EXPECT_TRUE(tapped.tap.wants_frames());
  tapped.tap.watch(false);
  tapped.run();
  TappedFrames frames;
  tapped.tap.watch(true);
  tapped.tap.take_frames(frames);
  EXPECT_EQ(frames.size(), 0U);
  EXPECT_EQ(frames.missed(), 0U);
}

TEST_P(FrameTaps, GetThePictureOfOneFrameForEachOrder) {
  TappedRig tapped;
  tapped.before_start = [&] { tapped.tap.order_picture(0); };
  // The first one tells how much room it needs, the order stays for the second.
  tapped.at_frame = [&](const camd_frame& frame) {
    if (frame.sequence == 1) tapped.tap.order_picture(0);
  };
  tapped.run();
  EXPECT_THAT(tapped.pictures(), ElementsAre(1U));
  EXPECT_FALSE(tapped.tap.wants_picture(0));
  EXPECT_EQ(tapped.rig.made->ledger().totals().delivered, 8U);
}

TEST_P(FrameTaps, KeepAnOrderOverAFrameThatAPluginFails) {
  TappedRig tapped;
  tapped.before_start = [&] { tapped.tap.order_picture(0); };
  tapped.at_frame = [&](const camd_frame& frame) {
    if (frame.sequence == 0) tapped.failing = 0;
    if (frame.sequence == 1) tapped.failing = 1;
    if (frame.sequence == 2) tapped.failing = 99;
    if (frame.sequence == 3) tapped.tap.order_picture(0);
  };
  tapped.run();
  EXPECT_THAT(tapped.pictures(), ElementsAre(3U));
  EXPECT_EQ(tapped.rig.made->ledger().totals().delivered, 6U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
