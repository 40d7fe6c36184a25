// The built-in `track`: numbers that stay with their object, events, and what happens when frames or room are missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "harness.hpp"
#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"
#include "plugins/track/assignment.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<std::uint64_t>;

camd_detection box_at(float x, float y, float side = 40.0F, float score = 0.95F, int class_id = 0) {
  camd_detection d{};
  d.box[0] = x;
  d.box[1] = y;
  d.box[2] = d.box[3] = side;
  d.score = score;
  d.class_id = class_id;
  return d;
}

// Frames of one instance, by their time in milliseconds.
class TrackRun {
 public:
  explicit TrackRun(const std::string& config = "{}", std::vector<std::string> cameras = {"door"}) {
    model_.cameras = std::move(cameras);
    EXPECT_EQ(run.create(config), CAMD_OK) << run.error();
    EXPECT_EQ(run.outputs(model_), CAMD_OK) << run.error();
    run.results.capacity = 512;
  }
  // The numbers that the boxes get, in their order.
  Ids at(std::int64_t ms, const std::vector<camd_detection>& boxes, int camera = 0) {
    run.frame.captured_mono_ns = 1'000'000'000 + ms * 1'000'000;
    run.frame.camera_index = camera;
    ++run.frame.sequence;
    run.host.events.clear();
    EXPECT_EQ(run.process(model_, boxes), CAMD_OK) << run.error();
    Ids ids;
    for (const camd_detection& d : run.found()) ids.push_back(d.track_id);
    return ids;
  }
  // "track_lost 1 class_id=0 age_s=0.1" of the last frame, in their order.
  [[nodiscard]] std::vector<std::string> events() const {
    std::vector<std::string> lines;
    for (const camd_event& event : run.host.events) {
      std::ostringstream line;
      line << event.name << ' ' << event.track_id;
      for (int i = 0; i < event.number_count; ++i)
        line << ' ' << event.numbers[i].name << '=' << event.numbers[i].value;
      lines.push_back(line.str());
    }
    return lines;
  }

  Instance run{find_builtin("track")};

 private:
  FakeModel model_{4, 4};
};

TEST(Track, GivesANumberFromTheThirdSightOn) {
  TrackRun run;
  EXPECT_THAT(run.at(0, {box_at(10, 10, 40, 0.8F)}), ElementsAre(0));
  EXPECT_THAT(run.at(33, {box_at(12, 10, 40, 0.8F)}), ElementsAre(0));
  EXPECT_THAT(run.at(66, {box_at(14, 10, 40, 0.8F)}), ElementsAre(1));
  EXPECT_THAT(run.at(99, {box_at(16, 10, 40, 0.8F)}), ElementsAre(1));
}

TEST(Track, GivesANumberAtOnceToABoxThatIsSure) {
  TrackRun run;
  EXPECT_THAT(run.at(0, {box_at(10, 10, 40, 0.95F)}), ElementsAre(1));
  EXPECT_THAT(run.events(), ElementsAre("track_started 1 class_id=0", "track_confirmed 1 class_id=0 age_s=0"));
}

TEST(Track, TellsBeginningConfirmationLossReturnAndEnd) {
  TrackRun run(R"({"confirm":2})");
  run.at(0, {box_at(10, 10, 40, 0.8F)});
  EXPECT_THAT(run.events(), ElementsAre("track_started 1 class_id=0"));
  run.at(100, {box_at(10, 10, 40, 0.8F)});
  EXPECT_THAT(run.events(), ElementsAre("track_confirmed 1 class_id=0 age_s=0.1"));
  run.at(200, {});
  EXPECT_THAT(run.events(), ElementsAre("track_lost 1 class_id=0 age_s=0.2"));
  run.at(300, {});
  EXPECT_THAT(run.events(), IsEmpty());
  run.at(400, {box_at(10, 10)});
  EXPECT_THAT(run.events(), ElementsAre("track_found 1 class_id=0 age_s=0.4 away_s=0.3"));
  run.at(500, {});
  run.at(2400, {});
  EXPECT_THAT(run.events(), IsEmpty());
  run.at(2401, {});
  EXPECT_THAT(run.events(), ElementsAre("track_ended 1 class_id=0 age_s=2.401 confirmed=1"));
}

TEST(Track, EndsWhatIsSeenOnceAndNotAgain) {
  TrackRun run;
  run.at(0, {box_at(10, 10, 40, 0.8F)});
  EXPECT_THAT(run.at(33, {box_at(400, 300, 40, 0.8F)}), ElementsAre(0));
  EXPECT_THAT(run.events(),
              ElementsAre("track_ended 1 class_id=0 age_s=0.033 confirmed=0", "track_started 2 class_id=0"));
}

TEST(Track, FollowsACameraThatIsTurnedByMoreThanABox) {
  TrackRun run;
  const std::vector<std::pair<float, float>> places = {{50, 60}, {200, 90}, {350, 300}, {120, 350}};
  const auto seen_from = [&](float x, float y) {
    std::vector<camd_detection> boxes;
    for (const auto& [px, py] : places) boxes.push_back(box_at(px + x, py + y));
    return boxes;
  };
  EXPECT_THAT(run.at(0, seen_from(0, 0)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(run.at(33, seen_from(90, -40)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(run.at(66, seen_from(-60, 70)), ElementsAre(1, 2, 3, 4));
}

TEST(Track, DoesNotTakeOthersThatComeForACameraThatTurns) {
  TrackRun run;
  EXPECT_THAT(run.at(0, {box_at(0, 0), box_at(100, 0), box_at(200, 0)}), ElementsAre(1, 2, 3));
  // Three others, in other places to each other.
  EXPECT_THAT(run.at(33, {box_at(50, 200), box_at(190, 260), box_at(400, 390)}), ElementsAre(4, 5, 6));
}

TEST(Track, KeepsNumbersWhereTwoObjectsCross) {
  TrackRun run;
  for (int i = 0; i < 40; ++i) {
    const auto step = static_cast<float>(i);
    // They meet in the middle, a fifth of their side apart in height.
    const Ids ids = run.at(33 * i, {box_at(100 + 6 * step, 100), box_at(340 - 6 * step, 108)});
    EXPECT_THAT(ids, ElementsAre(1, 2)) << "frame " << i;
  }
}

TEST(Track, FindsAnObjectAgainThatWasCoveredForHalfASecond) {
  TrackRun run;
  for (int i = 0; i < 10; ++i) run.at(33 * i, {box_at(100 + 3 * static_cast<float>(i), 100)});
  for (int i = 10; i < 25; ++i) run.at(33 * i, {});
  EXPECT_THAT(run.at(33 * 25, {box_at(175, 100)}), ElementsAre(1));
}

// Behind the post the box shrinks from the front, so that its middle seems to slow down; behind it, it grows from
// there.
TEST(Track, FindsAnObjectAgainThatPassedBehindAPost) {
  TrackRun run;
  for (int i = 0; i < 60; ++i) {
    const float left = 100 + 3 * static_cast<float>(i), right = left + 40;
    constexpr float kPostLeft = 180, kPostRight = 210;
    const float from = left < kPostLeft ? left : std::max(left, kPostRight);
    const float to = left < kPostLeft ? std::min(right, kPostLeft) : right;
    std::vector<camd_detection> seen;
    if (to - from >= 25) {
      seen = {box_at(from, 100)};
      seen[0].box[2] = to - from;
    }
    const Ids ids = run.at(33 * i, seen);
    EXPECT_THAT(ids, Each(1)) << "frame " << i;
  }
}

TEST(Track, FindsAnObjectAgainThatNarrowedAwayBehindAWidePost) {
  TrackRun run;
  for (int i = 0; i < 70; ++i) {
    const float left = 100 + 4 * static_cast<float>(i), right = left + 60;
    constexpr float kPostLeft = 220, kPostRight = 300;
    const float from = left < kPostLeft ? left : std::max(left, kPostRight);
    const float to = left < kPostLeft ? std::min(right, kPostLeft) : right;
    std::vector<camd_detection> seen;
    if (to - from >= (left < kPostLeft ? 32 : 48)) {
      seen = {box_at(from, 100, 60)};
      seen[0].box[2] = to - from;
    }
    EXPECT_THAT(run.at(33 * i, seen), Each(1)) << "frame " << i;
  }
}

TEST(Track, LeavesABoxToTheTrackThatIsNearerBeforeOneThatWasLost) {
  TrackRun run;
  run.at(0, {box_at(100, 100)});
  for (int i = 1; i < 4; ++i) run.at(33 * i, {box_at(150, 100, 40, 0.8F)});
  EXPECT_THAT(run.at(33 * 4, {box_at(150, 100, 40, 0.8F)}), ElementsAre(2));
}

TEST(Track, GivesANewNumberToWhatComesAfterTheTimeThatTracksAreKept) {
  TrackRun run(R"({"keep":0.5})");
  run.at(0, {box_at(100, 100)});
  EXPECT_THAT(run.at(500, {box_at(100, 100)}), ElementsAre(1));
  EXPECT_THAT(run.at(1001, {box_at(100, 100)}), ElementsAre(2));
}

TEST(Track, KeepsTheNumberAcrossDroppedFrames) {
  TrackRun run;
  const auto where = [](int ms) { return box_at(0.15F * static_cast<float>(ms), 100); };
  for (const int ms : {0, 33, 66, 99, 133, 166}) run.at(ms, {where(ms)});
  // Nine frames were dropped: the box is 50 pixels, more than its side, from where it was last seen.
  EXPECT_THAT(run.at(500, {where(500)}), ElementsAre(1));
  EXPECT_THAT(run.events(), IsEmpty());
}

TEST(Track, CountsTimeAndNotFramesWhileAnObjectIsAway) {
  for (const int period : {10, 100, 450}) {
    TrackRun run;
    run.at(0, {box_at(100, 100)});
    for (int ms = period; ms < 2000; ms += period) run.at(ms, {});
    EXPECT_THAT(run.at(2000, {box_at(100, 100)}), ElementsAre(1)) << period;
  }
}

TEST(Track, StandsStillForAFrameWhenTheClockGoesBack) {
  TrackRun run;
  run.at(5000, {box_at(100, 100)});
  run.at(5033, {box_at(100, 100)});
  EXPECT_THAT(run.at(10, {box_at(100, 100)}), ElementsAre(1));
  EXPECT_THAT(run.at(43, {box_at(100, 100)}), ElementsAre(1));
}

TEST(Track, EndsAllTracksWhenTheClockLeapsAhead) {
  TrackRun run;
  run.at(0, {box_at(100, 100)});
  run.at(33, {box_at(100, 100)});
  EXPECT_THAT(run.at(3'600'000, {box_at(100, 100, 40, 0.8F)}), ElementsAre(0));
  EXPECT_THAT(run.events(),
              ElementsAre("track_ended 1 class_id=0 age_s=3600 confirmed=1", "track_started 2 class_id=0"));
}

TEST(Track, GoesOnWithDoubtfulBoxesAndBeginsNothingWithThem) {
  TrackRun run;
  run.at(0, {box_at(100, 100)});
  run.at(33, {box_at(100, 100)});
  EXPECT_THAT(run.at(66, {box_at(100, 100, 40, 0.3F), box_at(300, 300, 40, 0.3F)}), ElementsAre(1, 0));
  EXPECT_THAT(run.at(99, {box_at(100, 100, 40, 0.3F), box_at(300, 300, 40, 0.3F)}), ElementsAre(1, 0));
}

TEST(Track, KeepsClassesApartUnlessToldOtherwise) {
  TrackRun apart;
  apart.at(0, {box_at(100, 100)});
  apart.at(33, {box_at(100, 100)});
  EXPECT_THAT(apart.at(66, {box_at(100, 100, 40, 0.95F, 1)}), ElementsAre(2));
  TrackRun together(R"({"by_class":false})");
  together.at(0, {box_at(100, 100)});
  together.at(33, {box_at(100, 100)});
  EXPECT_THAT(together.at(66, {box_at(100, 100, 40, 0.95F, 1)}), ElementsAre(1));
}

TEST(Track, KeepsCamerasApartAndCountsForAllOfThem) {
  TrackRun run("{}", {"door", "yard"});
  run.at(0, {box_at(100, 100)}, 0);
  run.at(5, {box_at(100, 100)}, 1);
  EXPECT_THAT(run.at(33, {box_at(100, 100)}, 0), ElementsAre(1));
  EXPECT_THAT(run.at(38, {box_at(100, 100)}, 1), ElementsAre(2));
}

TEST(Track, BeginsAnewForACameraThatComesIntoThePlaceOfAnother) {
  TrackRun run;
  run.at(0, {box_at(100, 100)});
  run.at(33, {box_at(100, 100)});
  ASSERT_EQ(run.run.change_camera(0, nullptr), CAMD_OK);
  ASSERT_EQ(run.run.change_camera(0, "yard"), CAMD_OK);
  EXPECT_THAT(run.at(66, {box_at(100, 100)}), ElementsAre(2));
}

TEST(Track, EndsTracksWhenThePictureGetsAnotherSize) {
  TrackRun run;
  run.at(0, {box_at(100, 100)});
  run.at(33, {box_at(100, 100)});
  run.run.frame.width = 1280;
  EXPECT_THAT(run.at(66, {box_at(100, 100, 40, 0.8F)}), ElementsAre(0));
  EXPECT_THAT(run.events(),
              ElementsAre("track_ended 1 class_id=0 age_s=0.033 confirmed=1", "track_started 2 class_id=0"));
}

TEST(Track, NeverGivesANumberOfBeforeAReload) {
  Instance run(find_builtin("track"));
  run.host.host.reloads = 1;
  FakeModel model(4, 4);
  ASSERT_EQ(run.create("{}"), CAMD_OK);
  ASSERT_EQ(run.outputs(model), CAMD_OK);
  ASSERT_EQ(run.process(model, {box_at(10, 10)}), CAMD_OK);
  EXPECT_EQ(run.found()[0].track_id, 4294967297U);
}

TEST(Track, LeavesOutAndCountsWhatItHasNoRoomFor) {
  TrackRun run(R"({"capacity":2})");
  run.at(0, {box_at(0, 0), box_at(100, 0), box_at(200, 0)});
  EXPECT_THAT(run.at(33, {box_at(0, 0), box_at(100, 0), box_at(200, 0)}), ElementsAre(1, 2, 0));
  EXPECT_THAT(run.run.host.number_lines(), ElementsAre("started 2", "confirmed 2", "lost 0", "ended 0", "left_out 2",
                                                       "events_left_out 0", "active 0"));
  ASSERT_EQ(run.run.offered<camd_plugin_counters>(CAMD_EXTENSION_COUNTERS).sample(run.run.instance, &run.run.problem),
            CAMD_OK);
  EXPECT_EQ(run.run.host.number_lines().back(), "active 2");
}

TEST(Track, CountsEventsThatFindNoRoom) {
  TrackRun run;
  std::vector<camd_detection> many;
  for (int i = 0; i < 70; ++i)
    many.push_back(box_at(static_cast<float>(50 * (i % 10)), static_cast<float>(50 * (i / 10))));
  run.at(0, many);
  EXPECT_EQ(run.events().size(), 64U);
  EXPECT_EQ(run.run.host.number_lines()[5], "events_left_out 76");
}

TEST(Track, GivesTheSameNumbersForTheSameFrames) {
  const auto play = [] {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> place(0, 500), chance(0, 1);
    TrackRun run;
    std::vector<Ids> all;
    for (int i = 0; i < 200; ++i) {
      std::vector<camd_detection> boxes;
      for (int k = 0; k < 20; ++k) {
        if (chance(random) < 0.8F) boxes.push_back(box_at(place(random), place(random), 60, chance(random)));
      }
      all.push_back(run.at(33 * i, boxes));
    }
    return all;
  };
  EXPECT_EQ(play(), play());
}

TEST(Track, TellsNothingWhenEventsAreOff) {
  TrackRun run(R"({"events":false})");
  run.at(0, {box_at(100, 100)});
  EXPECT_THAT(run.events(), IsEmpty());
  EXPECT_EQ(run.run.host.number_lines()[0], "started 1");
}

TEST(Track, NamesAllThatIsWrongWithItsConfiguration) {
  Instance run(find_builtin("track"));
  EXPECT_EQ(run.create(R"({"low":0.7,"keep":-1,"kep":2})"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(
      run.error(),
      "config.keep: must be a number in 0..3600, not -1; config.low: 0.7 is above `high` (0.6): a box cannot be both; "
      "config.kep: unknown key (did you mean 'keep'?)");
}

TEST(Assignment, IsTheCheapestOfAll) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> cost(-1, 1);
  for (int round = 0; round < 200; ++round) {
    const int rows = 1 + round % 5, columns = 1 + round / 5 % 5, most = std::max(rows, columns);
    std::vector<float> costs(static_cast<std::size_t>(rows * columns));
    std::generate(costs.begin(), costs.end(), [&] { return cost(random); });
    const auto at = [&](int r, int c) {
      return r < rows && c < columns ? costs[static_cast<std::size_t>(r * columns + c)] : 0.0F;
    };
    std::vector<int> order(static_cast<std::size_t>(most));
    std::iota(order.begin(), order.end(), 0);
    float least = std::numeric_limits<float>::max();
    do {
      float sum = 0;
      for (int r = 0; r < most; ++r) sum += at(r, order[static_cast<std::size_t>(r)]);
      least = std::min(least, sum);
    } while (std::next_permutation(order.begin(), order.end()));
    track::Assignment assignment(5);
    assignment.solve(costs.data(), rows, columns);
    float sum = 0;
    for (int r = 0; r < rows; ++r) sum += assignment.column_of(r) < 0 ? 0.0F : at(r, assignment.column_of(r));
    EXPECT_NEAR(sum, least, 1e-5) << rows << " x " << columns;
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
