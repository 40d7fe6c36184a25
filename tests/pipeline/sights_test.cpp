// What the cameras show: of one frame of each period, and of every frame's events.
#include "pipeline/core/sights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pipeline/plugin/frame_events.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <std::size_t N>
void put(char (&to)[N], const std::string& text) {
  ASSERT_LT(text.size(), N);
  std::copy(text.begin(), text.end(), to);
}

// A frame that the plug-ins are done with.
class DoneFrame final : public FramePostprocessing {
 public:
  base::Status process(const camd_frame& /*frame*/, camd_results& /*results*/) noexcept override { return {}; }
  [[nodiscard]] std::string_view inside() const noexcept override { return {}; }
  [[nodiscard]] std::int32_t event_count() const noexcept override { return events.count(); }
  [[nodiscard]] const camd_event* event(std::int32_t index) const noexcept override { return events.get(index); }

  void tell(const char* name, const std::string& zone, const char* first, double one, const char* second, double two) {
    camd_event event{};
    event.struct_size = sizeof(event);
    put(event.name, name);
    put(event.zone, zone);
    event.number_count = 2;
    put(event.numbers[0].name, first);
    put(event.numbers[1].name, second);
    event.numbers[0].value = one;
    event.numbers[1].value = two;
    EXPECT_EQ(events.add(&event), CAMD_OK);
  }

  FrameEvents events;
};

camd_detection found(std::uint64_t track_id, const std::string& text) {
  camd_detection d{};
  d.track_id = track_id;
  put(d.text, text);
  return d;
}

void note(Sights& sights, std::vector<camd_detection> detections, const DoneFrame& frame = {}, int camera = 0) {
  const auto count = static_cast<std::int32_t>(detections.size());
  const camd_results results{sizeof(camd_results), count, count, detections.data()};
  sights.note(static_cast<capture::CameraIndex>(camera), results, frame);
}

TEST(Sights, AreOfTheFirstFrameSinceTheyWereTaken) {
  Sights sights(1);
  EXPECT_FALSE(sights.take(0));
  note(sights, {found(1, "ROOM 12"), found(2, ""), found(0, "4471"), found(3, "ROOM 12")});
  note(sights, {found(9, "later")});
  const auto first = sights.take(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->detections, 4U);
  EXPECT_EQ(first->tracks, 3U);
  EXPECT_THAT(first->texts, ElementsAre("ROOM 12", "4471"));
  EXPECT_FALSE(sights.take(0)) << "no frame since";
  note(sights, {});
  const auto next = sights.take(0);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->detections, 0U);
  EXPECT_THAT(next->texts, IsEmpty());
}

TEST(Sights, HaveTheNewestCountsOfEveryFramesEvents) {
  Sights sights(2);
  DoneFrame one, two;
  one.tell("zone_entered", "desk", "inside", 1, "entered", 1);
  one.tell("line_crossed", "desk", "in", 4, "out", 5);
  one.tell("pose", "aruco_4x4_50:27", "x", 1, "y", 2);
  two.tell("zone_left", "desk", "inside", 0, "entered", 1);
  note(sights, {}, one);
  note(sights, {}, two);
  const auto seen = sights.take(0);
  ASSERT_TRUE(seen);
  ASSERT_EQ(seen->zones.size(), 1U);
  EXPECT_EQ(seen->zones[0].name, "desk");
  EXPECT_EQ(seen->zones[0].inside, 0);
  EXPECT_EQ(seen->zones[0].entered, 1);
  ASSERT_EQ(seen->lines.size(), 1U);
  EXPECT_EQ(seen->lines[0].in, 4);
  EXPECT_EQ(seen->lines[0].out, 5);
  note(sights, {}, {}, 1);
  EXPECT_THAT(sights.take(1)->zones, IsEmpty()) << "another camera";
}

TEST(Sights, BeginAnewForACameraThatComesIntoThePlaceOfAnother) {
  Sights sights(1);
  DoneFrame frame;
  frame.tell("zone_entered", "desk", "inside", 1, "entered", 1);
  note(sights, {found(1, "old")}, frame);
  sights.begin(0);
  EXPECT_FALSE(sights.take(0));
  note(sights, {});
  EXPECT_THAT(sights.take(0)->zones, IsEmpty());
}

TEST(Sights, LeaveOutWhatFindsNoRoom) {
  Sights sights(1);
  std::vector<camd_detection> many;
  for (int i = 0; i < 40; ++i) many.push_back(found(1, std::to_string(i)));
  for (int i = 0; i < 40; ++i) {
    DoneFrame frame;
    frame.tell("zone_entered", std::to_string(i), "inside", 1, "entered", 1);
    note(sights, many, frame);
  }
  const auto seen = sights.take(0);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->texts.size(), Sights::kMostTexts);
  EXPECT_EQ(seen->zones.size(), Sights::kMostPlaces);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
