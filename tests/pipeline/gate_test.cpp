// Cameras whose gate lets only those frames through whose picture changed, from the source to the last plug-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/loader.hpp"
#include "pipeline/run/gate_check.hpp"
#include "plugins/builtin.hpp"
#include "tests/pipeline/rig.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::ManualClock;
using std::chrono::milliseconds;
using test::dropped;
using test::FakePlugin;
using test::Rig;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kWidth = 640;
constexpr int kHeight = 360;
constexpr int kSide = 40;  // of the square in the picture

// A camera of 25 frames a second that shows a white square, each frame when the one before has come to its end.
class GatedCamera : public ::testing::Test {
 protected:
  CameraSpec camera(int frames, std::function<int(int frame)> left) {
    CameraSpec spec = test::fake_camera("door", [=, this](capture::FrameRing& ring, const std::atomic<bool>&) {
      const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kGray8, kWidth, kHeight);
      for (int i = 0; i < frames; ++i) {
        {
          std::optional<capture::FillLease> lease = ring.begin();
          std::byte* const pixels = lease->data(layout);
          std::memset(pixels, 50, layout.size_bytes);
          const int x = left(i);
          for (int y = 100; y < 100 + kSide && x >= 0; ++y) std::memset(pixels + y * kWidth + x, 200, kSide);
          lease->publish(clock_.now(), clock_.now());
        }
        while (rig_.made->ledger().totals(0).in_flight != 0) std::this_thread::yield();
        clock_.advance(milliseconds(40));
      }
    });
    spec.gate = gate_;
    return spec;
  }
  Totals run(CameraSpec spec) {
    const char* const name = spec.name.c_str();
    camd_model model{};
    model.struct_size = sizeof(model);
    model.path = "fake.onnx";
    std::vector<camd_tensor_spec> outputs;
    for (const infer::TensorSpec& one : rig_.engine.outputs()) {
      outputs.push_back(
          {one.name.c_str(), static_cast<std::int32_t>(one.shape.size()), one.shape.data(), dl_type(one.type)});
    }
    model.output_count = static_cast<std::int32_t>(outputs.size());
    model.outputs = outputs.data();
    model.camera_count = 1;
    model.camera_names = &name;
    model.card_json = "{}";
    rig_.plugins.declare(model);
    rig_.made = std::make_unique<Pipeline>(rig_.lanes(), rig_.plugins, clock_, std::vector{std::move(spec)},
                                           rig_.options, nullptr);
    Pipeline& pipeline = *rig_.made;
    pipeline.start();
    EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
    pipeline.stop(true);
    EXPECT_TRUE(pipeline.ledger().totals().balanced());
    EXPECT_EQ(pipeline.ledger().totals().in_flight, 0);
    return pipeline.ledger().totals(0);
  }

  config::MotionGate gate_;
  ManualClock clock_;
  std::atomic<int> networks_{0};
  Rig rig_{clock_,
           [this](const infer::PictureView&) -> base::Status {
             ++networks_;
             return {};
           },
           false};
};

TEST_F(GatedCamera, FramesInWhichNothingMovesAreGatedAndCostNoNetwork) {
  FakePlugin plugin(test::takes_it);
  plugin.add_to(rig_.plugins);
  const Totals totals = run(camera(101, [](int) { return 200; }));
  EXPECT_EQ(totals.captured, 101U);
  EXPECT_EQ(totals.delivered, 19U);  // 13 in the first half second, then one each 520 ms, at 1000 to 3600 ms
  EXPECT_EQ(dropped(totals, DropReason::kGated), 82U);
  EXPECT_EQ(totals.dropped_sum(), 82U);
  EXPECT_EQ(networks_, 19);
}

TEST_F(GatedCamera, FramesInWhichSomethingMovesAreAllDelivered) {
  FakePlugin plugin(test::takes_it);
  plugin.add_to(rig_.plugins);
  const Totals totals = run(camera(100, [](int i) { return 4 * i; }));
  EXPECT_EQ(totals.delivered, 100U);
}

TEST_F(GatedCamera, TheFrameAfterOneThatWasNotDeliveredPasses) {
  int failures = 0;
  FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    if (frame.sequence < 25) return static_cast<int>(CAMD_OK);
    return static_cast<int>(++failures <= 3 ? CAMD_ERROR_FAILED : CAMD_OK);
  });
  plugin.add_to(rig_.plugins);
  const Totals totals = run(camera(40, [](int) { return 200; }));
  // Frame 25 by the longest pause and three after it, of which the last is delivered; the next pause ends at 41.
  EXPECT_EQ(totals.delivered, 13U + 1U);
  EXPECT_EQ(dropped(totals, DropReason::kPluginError), 3U);
  EXPECT_EQ(dropped(totals, DropReason::kGated), 40U - 13U - 4U);
}

// Finds the square, and gives it to `track` and `zones`.
class FollowedCamera : public GatedCamera {
 protected:
  FollowedCamera() {
    finds_.add_to(rig_.plugins);
    rig_.plugins.add(*plugins::find_builtin("track"), "{}");
    rig_.plugins.add(*plugins::find_builtin("zones"),
                     R"({"dwell":5,"zones":[{"name":"porch","polygon":[[0.4,0],[0.7,0],[0.7,1],[0.4,1]]}]})");
    notes_.add_to(rig_.plugins);
  }
  FakePlugin finds_{[](const camd_frame& frame, const camd_tensors&, camd_results& results, camd_error&) {
                      const std::uint8_t* const row = frame.picture->planes[0].data + std::ptrdiff_t{100} * kWidth;
                      const auto* const at = std::find(row, row + kWidth, 200);
                      if (at == row + kWidth) return static_cast<int>(CAMD_OK);
                      results.count = 1;
                      results.items[0] = {};
                      results.items[0].box[0] = static_cast<float>(at - row);
                      results.items[0].box[1] = 100;
                      results.items[0].box[2] = results.items[0].box[3] = kSide;
                      results.items[0].score = 0.95F;
                      return static_cast<int>(CAMD_OK);
                    },
                    true};
  FakePlugin notes_{[this](const camd_frame&, const camd_tensors&, camd_results& results, camd_error&) {
    const auto& events = test::extension<camd_events>(notes_.host, CAMD_EXTENSION_EVENTS);
    for (int i = 0; i < events.count(notes_.host); ++i) names_.emplace_back(events.get(notes_.host, i)->name);
    for (int i = 0; i < results.count; ++i) numbers_.push_back(results.items[i].track_id);
    return static_cast<int>(CAMD_OK);
  }};
  std::vector<std::string> names_;
  std::vector<std::uint64_t> numbers_;
};

// Walks in at 300 pixels a second, stops dead in the zone for ten seconds and walks out.
int walks_and_stops(int frame) {
  constexpr int kStop = 25;
  constexpr int kGo = kStop + 250;
  const int moving = std::min(frame, kStop) + std::max(0, frame - kGo);
  const int left = 12 * moving;
  return left <= kWidth - kSide ? left : -1;
}

TEST_F(FollowedCamera, WhatStopsKeepsItsNumberAndItsDwellThoughFramesAreGated) {
  const Totals totals = run(camera(360, walks_and_stops));
  EXPECT_GT(dropped(totals, DropReason::kGated), 200U);
  EXPECT_THAT(numbers_, Each(1U));
  EXPECT_THAT(names_, ElementsAre("track_started", "track_confirmed", "zone_entered", "zone_dwell", "zone_left",
                                  "track_lost", "track_ended"));
}

TEST_F(FollowedCamera, WhatStopsIsToldOfAsWithoutAGate) {
  CameraSpec spec = camera(360, walks_and_stops);
  spec.gate.reset();
  EXPECT_EQ(run(std::move(spec)).delivered, 360U);
  EXPECT_THAT(numbers_, Each(1U));
  EXPECT_THAT(names_, ElementsAre("track_started", "track_confirmed", "zone_entered", "zone_dwell", "zone_left",
                                  "track_lost", "track_ended"));
}

// ---- What is refused

std::vector<std::string> problems_of(const std::string& longest, const std::string& plugins) {
  const config::Config config = config::load_text("c.yaml",
                                                  "model: {path: m}\ncameras:\n  - {name: yard, source: {type: test}}\n"
                                                  "  - {name: door, gate: {longest: " +
                                                      longest + "}, source: {type: test}}\npostprocess:\n" + plugins,
                                                  {}, {.check_files = false});
  Mistakes mistakes("c.yaml");
  check_gates(config, mistakes);
  std::vector<std::string> lines;
  try {
    mistakes.raise();
  } catch (const base::Error& error) {
    lines.emplace_back(error.what());
  }
  return lines;
}

TEST(GateCheck, WhatForgetsBetweenTwoLooksIsRefused) {
  EXPECT_THAT(problems_of("1s", "  - {plugin: track}\n  - {plugin: zones}\n  - {plugin: jsonl}\n"), IsEmpty());
  EXPECT_THAT(
      problems_of("1s", "  - {plugin: track, config: {keep: 1.9}}\n"),
      ElementsAre("c.yaml:6:36: postprocess.0.config.keep: 1.9 s is less than twice gate.longest of camera door, "
                  "1 s: what stands still would be forgotten between two looks"));
  EXPECT_THAT(
      problems_of("1500ms", "  - {plugin: jsonl}\n  - {plugin: zones}\n"),
      ElementsAre("c.yaml:7:5: postprocess.1.config.forget: 2 s is less than twice gate.longest of camera door, "
                  "1.5 s: what stands still would be forgotten between two looks"));
  EXPECT_THAT(problems_of("10s", "  - {plugin: zones, config: {forget: 20}}\n"), IsEmpty());
}

TEST(GateCheck, KnowsTheDefaultsOfTheManual) {
  const auto manual = [](const std::string& name) {
    std::ifstream file(test::source_dir() + "/docs/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_THAT(manual("track.md"), ::testing::HasSubstr("| `keep` | 2 |"));
  EXPECT_THAT(manual("zones.md"), ::testing::HasSubstr("| `forget` | 2 |"));
  EXPECT_THAT(problems_of("1s", "  - {plugin: track}\n  - {plugin: zones}\n"), IsEmpty());
  EXPECT_THAT(problems_of("1001ms", "  - {plugin: track}\n"), ::testing::SizeIs(1));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
