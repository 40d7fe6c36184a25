// What viewers are told, and what a slow one misses.
#include "apps/http/feed.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/http/tapped.hpp"

namespace camd::http {
namespace CAMD_TEST_FILE {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class FeedTest : public ::testing::Test {
 protected:
  void deliver(const char* camera, std::uint64_t sequence, std::vector<camd_detection> detections = {}) {
    test::deliver(tap_, camera, sequence, clock_.now(), std::move(detections));
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }

  base::ManualClock clock_;
  pipeline::FrameTap tap_;
  Feed feed_{clock_, tap_};
};

TEST_F(FeedTest, TellsAFrameAsJsonlWritesIt) {
  const auto viewer = feed_.open({});
  camd_detection one{};
  std::strcpy(one.class_name, "qr");
  std::strcpy(one.text, "a\"b");
  one.score = 0.5F;
  one.box[2] = 10.25F;
  one.track_id = 9;
  deliver("door", 3, {one});
  EXPECT_EQ(viewer->next().value(),
            "event: detections\ndata: "
            R"({"camera":"door","seq":3,"captured_mono_ns":999993000,"time":"2023-11-14T22:13:20.000001Z",)"
            R"("latency_us":7,"captured_uncertainty_us":0,"width":64,"height":36,"detections":[{"class":"qr",)"
            R"("track_id":9,"text":"a\"b","class_id":0,"score":0.5000,"box":[0,0,10.25,0],"keypoints":[]}]})"
            "\n\n");
  EXPECT_EQ(viewer->next().value(), "");
}

TEST_F(FeedTest, GivesEachViewerWhatItAskedFor) {
  const auto all = feed_.open({});
  const auto door = feed_.open({"door", 0ms, false});
  const auto lines = feed_.open({"none", 0ms, true});
  deliver("door", 1);
  deliver("yard", 2);
  feed_.line(R"({"event":"process"})");
  EXPECT_EQ(count(all->next().value(), "event: detections"), 2U);
  EXPECT_EQ(count(door->next().value(), "event: detections"), 1U);
  EXPECT_EQ(lines->next().value(), "event: metrics\ndata: {\"event\":\"process\"}\n\n");
}

TEST_F(FeedTest, TakesOneFrameOfEachCameraInAsLongAsWasAsked) {
  const auto viewer = feed_.open({"", 200ms, false});
  const auto after = [&](base::Duration time) {
    clock_.advance(time);
    deliver("door", 1);
    deliver("yard", 1);
    return count(viewer->next().value(), "event: detections");
  };
  EXPECT_EQ(after(0ms), 2U);
  EXPECT_EQ(after(199ms), 0U);
  EXPECT_EQ(after(1ms), 2U);
}

TEST_F(FeedTest, TellsEveryFrameWhosePictureWasCopied) {
  tap_.make_room(1);
  const auto viewer = feed_.open({"", 1h, false});
  deliver("door", 1);
  tap_.order_picture(0);
  test::deliver_picture(tap_, "door", 0, 2, clock_.now());  // says how much room it needs
  tap_.order_picture(0);
  test::deliver_picture(tap_, "door", 0, 3, clock_.now());
  deliver("door", 4);
  const std::string text = viewer->next().value();
  EXPECT_EQ(count(text, "event: detections"), 2U);
  EXPECT_THAT(text, HasSubstr("\"seq\":1,"));
  EXPECT_THAT(text, HasSubstr("\"seq\":3,"));
}

TEST_F(FeedTest, CountsWhatItCannotKeepAndTellsItOnce) {
  const auto viewer = feed_.open({});
  for (std::size_t i = 0; i < pipeline::TappedFrames::kMostFrames + 10; ++i) deliver("door", i);
  const std::string text = viewer->next().value();
  EXPECT_EQ(count(text, "event: detections"), pipeline::TappedFrames::kMostFrames);
  EXPECT_THAT(text, HasSubstr("event: missed\ndata: {\"events\":10}\n\n"));
  EXPECT_EQ(viewer->next().value(), "");
}

TEST_F(FeedTest, BoundsWhatWaitsForAViewerThatDoesNotRead) {
  const auto quick = feed_.open({"", 0ms, true});
  const auto slow = feed_.open({"", 0ms, true});
  const std::string line(kMostWaitingBytes / 4, 'x');
  for (int i = 0; i < 6; ++i) {
    feed_.line(line);
    EXPECT_EQ(count(quick->next().value(), "event: metrics"), 1U);
  }
  const std::string text = slow->next().value();
  EXPECT_LE(text.size(), kMostWaitingBytes + 64);
  EXPECT_EQ(count(text, "event: metrics"), 3U);
  EXPECT_THAT(text, HasSubstr("{\"events\":3}"));
}

TEST_F(FeedTest, BoundsTheViewersAndKeepsNothingWhileThereAreNone) {
  std::vector<std::unique_ptr<Stream>> viewers;
  for (std::size_t i = 0; i < kMostViewers; ++i) viewers.push_back(feed_.open({}));
  EXPECT_TRUE(tap_.wants_frames());
  EXPECT_EQ(feed_.open({}), nullptr);
  viewers.pop_back();
  EXPECT_NE(viewers.emplace_back(feed_.open({"", 0ms, true})), nullptr);
  deliver("door", 1);
  feed_.line("x");
  viewers.clear();
  EXPECT_FALSE(tap_.wants_frames());
  deliver("door", 2);
  feed_.line("x");
  EXPECT_EQ(feed_.open({"", 0ms, true})->next().value(), "");
}

TEST_F(FeedTest, SaysNowAndThenThatItIsThere) {
  const auto viewer = feed_.open({});
  clock_.advance(kHeartbeat - 1ms);
  EXPECT_EQ(viewer->next().value(), "");
  clock_.advance(1ms);
  EXPECT_EQ(viewer->next().value(), ": still here\n\n");
  EXPECT_EQ(viewer->next().value(), "");
}

TEST_F(FeedTest, EndsTheStreamsThatAreOpenAndNoOthers) {
  const auto before = feed_.open({});
  feed_.end_all();
  EXPECT_FALSE(before->next());
  EXPECT_TRUE(feed_.open({})->next());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::http
