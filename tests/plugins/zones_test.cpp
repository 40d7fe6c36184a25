// The built-in `zones`: entering, leaving, staying and crossing, by the time of the frames; and which shapes are
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// An object whose bottom centre is at (x, y) of a picture of 100 by 100 pixels.
camd_detection person(float x, float y, std::uint64_t track_id = 1, int class_id = 0) {
  camd_detection d{};
  d.box[0] = x - 5;
  d.box[1] = y - 20;
  d.box[2] = 10;
  d.box[3] = 20;
  d.score = 0.9F;
  d.class_id = class_id;
  d.track_id = track_id;
  return d;
}

class ZonesRun {
 public:
  explicit ZonesRun(const std::string& config, std::vector<std::string> cameras = {"door"}) {
    model_.cameras = std::move(cameras);
    run.frame.width = run.frame.height = 100;
    EXPECT_EQ(run.create(config), CAMD_OK) << run.error();
    EXPECT_EQ(run.outputs(model_), CAMD_OK) << run.error();
  }
  // The events of a frame: "line_crossed gate 1 direction=1 ...", in their order.
  std::vector<std::string> at(std::int64_t ms, const std::vector<camd_detection>& people, int camera = 0) {
    run.frame.captured_mono_ns = 1'000'000'000 + ms * 1'000'000;
    run.frame.camera_index = camera;
    run.host.events.clear();
    EXPECT_EQ(run.process(model_, people), CAMD_OK) << run.error();
    std::vector<std::string> lines;
    for (const camd_event& event : run.host.events) {
      std::ostringstream line;
      line << event.name << ' ' << event.zone << ' ' << event.track_id;
      for (int i = 0; i < event.number_count; ++i)
        line << ' ' << event.numbers[i].name << '=' << event.numbers[i].value;
      lines.push_back(line.str());
    }
    return lines;
  }

  Instance run{find_builtin("zones")};

 private:
  FakeModel model_{4, 4};
};

// The picture's lower half, and a line across its middle.
const char* const kPorch = R"({"zones":[{"name":"porch","polygon":[[0,0.5],[1,0.5],[1,1],[0,1]]}]})";
const char* const kGate = R"({"lines":[{"name":"gate","from":[0.2,0.5],"to":[0.8,0.5]}]})";

std::string refusal(const std::string& config) {
  Instance run(find_builtin("zones"));
  EXPECT_EQ(run.create(config), CAMD_ERROR_CONFIG);
  return run.error();
}

TEST(Zones, TellWhoEntersAndLeavesAndForHowLong) {
  ZonesRun run(kPorch);
  EXPECT_THAT(run.at(0, {person(50, 40)}), IsEmpty());
  EXPECT_THAT(run.at(100, {person(50, 60)}), IsEmpty());
  EXPECT_THAT(run.at(300, {person(50, 60)}),
              ElementsAre("zone_entered porch 1 inside=1 entered=1 of_class=1 class_id=0"));
  EXPECT_THAT(run.at(1100, {person(50, 40)}), IsEmpty());
  EXPECT_THAT(run.at(1300, {person(50, 40)}),
              ElementsAre("zone_left porch 1 inside=0 entered=1 of_class=1 inside_s=1 out_of_sight=0 class_id=0"));
}

TEST(Zones, TakeTheBottomOfTheBoxUnlessToldOtherwise) {
  ZonesRun bottom(R"({"settle":0,"zones":[{"name":"z","polygon":[[0,0.5],[1,0.5],[1,1],[0,1]]}]})");
  EXPECT_EQ(bottom.at(0, {person(50, 55)}).size(), 1U);
  ZonesRun center(R"({"settle":0,"anchor":"center","zones":[{"name":"z","polygon":[[0,0.5],[1,0.5],[1,1],[0,1]]}]})");
  EXPECT_THAT(center.at(0, {person(50, 55)}), IsEmpty());
  ZonesRun top(R"({"settle":0,"anchor":"top","zones":[{"name":"z","polygon":[[0,0.5],[1,0.5],[1,1],[0,1]]}]})");
  EXPECT_THAT(top.at(0, {person(50, 65)}), IsEmpty());
}

TEST(Zones, CountAnAnchorThatTremblesOnTheRimOnce) {
  ZonesRun run(kPorch);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(run.at(50 * i, {person(50, i % 2 == 0 ? 49 : 51)}), IsEmpty()) << i;
}

TEST(Zones, ReckonWithTimesWhereFramesWereDropped) {
  ZonesRun run(kPorch);
  run.at(0, {person(50, 40)});
  run.at(100, {person(50, 60)});
  EXPECT_THAT(run.at(5100, {}), IsEmpty()) << "not settled, and then forgotten";
  run.at(5200, {person(50, 60)});
  run.at(5400, {person(50, 60)});
  EXPECT_THAT(run.at(7000, {person(50, 40)}), IsEmpty());
  EXPECT_THAT(run.at(7900, {person(50, 40)}),
              ElementsAre("zone_left porch 1 inside=0 entered=1 of_class=1 inside_s=1.8 out_of_sight=0 class_id=0"));
}

TEST(Zones, LetThoseGoWhoAreNotSeenAnyMore) {
  ZonesRun run(kPorch);
  run.at(0, {person(50, 60)});
  run.at(500, {person(50, 60)});
  EXPECT_THAT(run.at(2500, {}), IsEmpty());
  EXPECT_THAT(run.at(2501, {}),
              ElementsAre("zone_left porch 1 inside=0 entered=1 of_class=1 inside_s=0.5 out_of_sight=1 class_id=0"));
}

TEST(Zones, TellOnceWhoStaysForLong) {
  ZonesRun run(R"({"dwell":2,"settle":0,"zones":[{"name":"porch","polygon":[[0,0.5],[1,0.5],[1,1],[0,1]]}]})");
  run.at(0, {person(50, 60)});
  EXPECT_THAT(run.at(1999, {person(50, 60)}), IsEmpty());
  EXPECT_THAT(run.at(2000, {person(50, 60)}),
              ElementsAre("zone_dwell porch 1 inside=1 entered=1 of_class=1 inside_s=2 class_id=0"));
  EXPECT_THAT(run.at(3000, {person(50, 60)}), IsEmpty());
}

TEST(Zones, CountCrossingsByDirectionAndClass) {
  ZonesRun run(kGate);
  run.at(0, {person(50, 40, 1), person(60, 60, 2, 3)});
  run.at(100, {person(50, 60, 1), person(60, 40, 2, 3)});
  EXPECT_THAT(run.at(300, {person(50, 60, 1), person(60, 40, 2, 3)}),
              ElementsAre("line_crossed gate 1 direction=1 in=1 out=1 of_class=1 class_id=0",
                          "line_crossed gate 2 direction=-1 in=1 out=1 of_class=1 class_id=3"));
  run.at(400, {person(50, 40, 1)});
  EXPECT_THAT(run.at(600, {person(50, 40, 1)}),
              ElementsAre("line_crossed gate 1 direction=-1 in=1 out=2 of_class=1 class_id=0"));
  EXPECT_THAT(run.run.host.number_lines(),
              ElementsAre("untracked 0", "left_out 0", "events_left_out 0", "gate_in 1", "gate_out 2"));
}

TEST(Zones, DoNotCountWhoGoesAroundTheEndOfALine) {
  ZonesRun run(kGate);
  run.at(0, {person(10, 40)});
  run.at(100, {person(10, 60)});
  EXPECT_THAT(run.at(300, {person(50, 60)}), IsEmpty());
}

TEST(Zones, DoNotCountWhoComesBackAtOnce) {
  ZonesRun run(kGate);
  run.at(0, {person(50, 40)});
  run.at(100, {person(50, 55)});
  EXPECT_THAT(run.at(200, {person(50, 45)}), IsEmpty());
  EXPECT_THAT(run.at(600, {person(50, 45)}), IsEmpty());
}

TEST(Zones, CountACrossingThatHappenedWhileFramesWereDropped) {
  ZonesRun run(kGate);
  run.at(0, {person(50, 20)});
  run.at(1500, {person(50, 90)});
  EXPECT_EQ(run.at(1700, {person(50, 90)}).size(), 1U);
}

TEST(Zones, StandStillForAFrameWhenTheClockGoesBack) {
  ZonesRun run(kPorch);
  run.at(5000, {person(50, 60)});
  EXPECT_THAT(run.at(0, {person(50, 60)}), IsEmpty());
  EXPECT_EQ(run.at(200, {person(50, 60)}).size(), 1U);
}

TEST(Zones, BelongToTheCameraThatTheyName) {
  ZonesRun run(R"({"settle":0,"zones":[{"name":"yard","camera":"yard","polygon":[[0,0],[1,0],[1,1],[0,1]]}]})",
               {"door", "yard"});
  EXPECT_THAT(run.at(0, {person(50, 60)}, 0), IsEmpty());
  EXPECT_EQ(run.at(0, {person(50, 60)}, 1).size(), 1U);
}

TEST(Zones, AddUpTheNumbersOfAllCameras) {
  ZonesRun run(kPorch, {"door", "yard"});
  for (const int ms : {0, 300}) {
    for (const int camera : {0, 1}) run.at(ms, {person(50, 60)}, camera);
  }
  ASSERT_EQ(run.run.offered<camd_plugin_counters>(CAMD_EXTENSION_COUNTERS).sample(run.run.instance, &run.run.problem),
            CAMD_OK);
  EXPECT_THAT(run.run.host.number_lines(), ElementsAre("untracked 0", "left_out 0", "events_left_out 0",
                                                       "porch_entered 2", "porch_left 0", "porch_inside 2"));
}

TEST(Zones, CountWhatHasNoTrack) {
  ZonesRun run(kPorch);
  run.at(0, {person(50, 60, 0), person(50, 60, 0)});
  EXPECT_EQ(run.run.host.number_lines()[0], "untracked 2");
}

TEST(Zones, TakePixelsOfANamedPictureAndFitFramesOfAnySize) {
  ZonesRun run(
      R"({"settle":0,"picture":[200,200],"zones":[{"name":"z","polygon":[[0,100],[200,100],[200,200],[0,200]]}]})");
  EXPECT_THAT(run.at(0, {person(50, 49)}), IsEmpty());
  EXPECT_EQ(run.at(0, {person(50, 60)}).size(), 1U);
}

TEST(Zones, RefusePolygonsThatCrossThemselvesOrLieOutside) {
  EXPECT_EQ(refusal(R"({"zones":[{"name":"bow","polygon":[[0,0],[1,1],[1,0],[0,1]]}]})"),
            "config.zones.0: polygon: crosses itself: its sides 1 and 3 meet");
  EXPECT_EQ(refusal(R"({"zones":[{"name":"out","polygon":[[0,0],[1.5,0],[1,1]]}]})"),
            "config.zones.0: polygon: [1.5, 0] lies outside the picture, which is 1 wide and 1 high (for pixels, set "
            "`picture: [width, height]`)");
  EXPECT_EQ(refusal(R"({"zones":[{"name":"back","polygon":[[0,0],[1,0],[0.5,0]]}]})"),
            "config.zones.0: polygon: goes back on itself at corner 2");
  EXPECT_EQ(refusal(R"({"zones":[{"name":"two","polygon":[[0,0],[1,0]]}]})"),
            "config.zones.0: polygon: must be a list of 3 to 64 places, [x, y] each");
  EXPECT_EQ(refusal(R"({"zones":[{"name":"same","polygon":[[0,0],[0,0],[1,1]]}]})"),
            "config.zones.0: polygon: corners 1 and 2 are the same");
}

TEST(Zones, NameAllThatIsWrongWithTheirConfiguration) {
  EXPECT_EQ(refusal("{}"), "config.zones: is needed, or `lines`: what shall be counted");
  EXPECT_EQ(
      refusal(
          R"({"lines":[{"name":"a","from":[0,0],"to":[0,0]},{"from":[0,0],"to":[1,1]},{"name":"c","too":1}],"settel":1})"),
      "config.lines.0: `from` and `to` are the same place; config.lines.1: name: is needed, of at most 47 bytes; "
      "config.lines.2: 'too' is an unknown key, known are name, from, to, camera; config.settel: unknown key (did "
      "you mean 'settle'?)");
  EXPECT_EQ(refusal(R"({"lines":[{"name":"a","from":[0,0],"to":[1,0]},{"name":"a","from":[0,0],"to":[0,1]}]})"),
            "config.lines.1: name: there is a 'a' already");
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
