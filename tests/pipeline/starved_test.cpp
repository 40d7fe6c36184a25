// A camera whose frames nobody gets: what the pipeline tells its source, and what the pipeline then tells of the
// camera.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "capture/test_source.hpp"
#include "tests/pipeline/rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::ManualClock;
using capture::SourceState;
using std::chrono::milliseconds;
using test::FakePlugin;
using test::Rig;
using ::testing::ElementsAre;

class States final : public PipelineListener {
 public:
  void camera_changed(capture::CameraIndex, SourceState state, const std::string& reason) override {
    const base::MutexLock lock(mutex_);
    states_.push_back(state);
    if (state == SourceState::kStarved) reason_ = reason;
  }
  void device_lost(const std::string&, const std::string&) override {}
  [[nodiscard]] std::vector<SourceState> states() const {
    const base::MutexLock lock(mutex_);
    return states_;
  }
  [[nodiscard]] std::string reason() const {
    const base::MutexLock lock(mutex_);
    return reason_;
  }

 private:
  mutable base::Mutex mutex_;
  std::vector<SourceState> states_ CAMD_GUARDED_BY(mutex_);
  std::string reason_ CAMD_GUARDED_BY(mutex_);
};

class StarvedCamera : public test::OnStreams {
 protected:
  static CameraSpec test_camera(const base::Clock& clock) {
    config::TestSource settings;
    settings.width = 64;
    settings.height = 48;
    settings.fps = 10;
    return {
        "door", false,
        [settings, &clock](capture::CameraIndex index, capture::FrameRing& ring, capture::SourceListener& listener) {
          return capture::make_test_source(settings, "door", index, ring, listener, clock);
        }};
  }
};

TEST_P(StarvedCamera, IsToldWithTheReasonAndRunsAgain) {
  ManualClock clock;
  States states;
  std::atomic<bool> fail{true};
  Rig rig(clock);
  FakePlugin plugin([&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    return static_cast<int>(fail ? CAMD_ERROR_FAILED : CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Pipeline& pipeline = rig.make({test_camera(clock)}, &states);
  pipeline.start();
  // One frame at a time, each to its end.
  std::uint64_t frames = 0;
  const auto pass = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ++frames;
      for (;;) {
        const Totals totals = pipeline.ledger().totals(0);
        if (totals.captured == frames && totals.in_flight == 0) break;
        std::this_thread::yield();
      }
      clock.advance(milliseconds(100));
    }
  };
  pass(40);
  while (pipeline.camera_status(0).state != SourceState::kStarved) std::this_thread::yield();
  EXPECT_EQ(states.reason(), "nothing is delivered: the plug-ins fail with every frame (plugin_error)");
  fail = false;
  pass(10);
  while (pipeline.camera_status(0).state != SourceState::kRunning) std::this_thread::yield();
  pipeline.stop(true);
  EXPECT_THAT(states.states(),
              ElementsAre(SourceState::kStarting, SourceState::kRunning, SourceState::kStarved, SourceState::kRunning));
}

INSTANTIATE_TEST_SUITE_P(Streams, StarvedCamera, ::testing::Bool(), test::name_of_streams);

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
