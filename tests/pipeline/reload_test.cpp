// Pipeline::reload(): other cameras, plug-ins and networks while frames are on their way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/pipeline/rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::Status;
using capture::CameraIndex;
using capture::SourceState;
using test::dropped;
using test::FakePlugin;
using test::Gate;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Publishes until it is stopped.
test::FakeSource::Body endless(const base::Clock& clock) {
  return [&clock](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
    while (!stopping && !ring.closed()) (void)test::publish_frame(ring, clock.now());
  };
}

// Waits until it is stopped.
void nothing(capture::FrameRing& /*ring*/, const std::atomic<bool>& stopping) {
  while (!stopping) std::this_thread::yield();
}

// A source that can never work.
CameraSpec refusing(const std::string& name) {
  class Refuses final : public capture::FrameSource {
   public:
    void start() override { throw base::Error(base::ErrorKind::kSource, "cannot be opened"); }
    void request_stop() noexcept override {}
    bool join(base::Duration /*patience*/) noexcept override { return true; }
  };
  return {name, true,
          [](CameraIndex, capture::FrameRing&, capture::SourceListener&) { return std::make_unique<Refuses>(); }};
}

// The sequence numbers that a plug-in saw, by camera.
class Seen {
 public:
  int note(const camd_frame& frame) {
    const base::MutexLock lock(mutex_);
    by_camera_[frame.camera].push_back(frame.sequence);
    more_.notify_all();
    return CAMD_OK;
  }
  void wait_for(const std::string& camera, std::size_t frames) {
    const base::MutexLock lock(mutex_);
    while (by_camera_[camera].size() < frames) more_.wait(mutex_);
  }
  [[nodiscard]] std::vector<std::uint64_t> of(const std::string& camera) {
    const base::MutexLock lock(mutex_);
    return by_camera_[camera];
  }
  // All from 0 on, each once and in its turn.
  [[nodiscard]] bool complete(const std::string& camera) {
    const std::vector<std::uint64_t> seen = of(camera);
    std::vector<std::uint64_t> all(seen.size());
    std::iota(all.begin(), all.end(), 0U);
    return seen == all;
  }

 private:
  base::Mutex mutex_;
  base::CondVar more_;
  std::map<std::string, std::vector<std::uint64_t>> by_camera_ CAMD_GUARDED_BY(mutex_);
};

class ReloadTest : public test::OnStreams {
 protected:
  ReloadTest() { plugin_.add_to(rig_.plugins); }
  PipelineChange change() { return {rig_.lanes(), rig_.plugins, rig_.options, {}, {}, {}}; }
  std::uint64_t lost() { return rig_.made->ledger().totals().dropped_sum(); }

  Seen seen_;
  FakePlugin plugin_{
      [this](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) { return seen_.note(frame); }};
  test::Rig rig_;
};
INSTANTIATE_TEST_SUITE_P(Streams, ReloadTest, testing::Values(false, true), test::name_of_streams);

TEST_P(ReloadTest, LosesNoFrameOfCamerasThatStayInAHundredReloads) {
  Pipeline& pipeline =
      rig_.make({test::fake_camera("a", endless(rig_.clock), true), test::fake_camera("b", endless(rig_.clock), true)});
  pipeline.start();
  for (int i = 0; i < 100; ++i) {
    PipelineChange next = change();
    if (i % 2 == 0) next.cameras.push_back({2, test::fake_camera("c", endless(rig_.clock), true)});
    if (i % 2 == 1) next.removed.push_back(2);
    pipeline.reload(next);
    const std::size_t now = seen_.of("a").size();
    seen_.wait_for("a", now + 3);
    seen_.wait_for("b", 3);
  }
  const Totals removed = pipeline.ledger().removed();
  EXPECT_TRUE(removed.balanced());
  EXPECT_EQ(removed.in_flight, 0);
  pipeline.stop(true);
  EXPECT_TRUE(seen_.complete("a"));
  EXPECT_TRUE(seen_.complete("b"));
  for (const CameraIndex camera : {0U, 1U}) {
    const Totals totals = pipeline.ledger().totals(camera);
    EXPECT_TRUE(totals.balanced());
    // Only the frame that a source began when its ring was closed.
    EXPECT_LE(totals.captured - totals.delivered, 1U);
    EXPECT_EQ(totals.delivered, seen_.of(camera == 0 ? "a" : "b").size());
  }
  const Totals all = pipeline.ledger().totals();
  EXPECT_TRUE(all.balanced());
  EXPECT_EQ(all.in_flight, 0);
}

TEST_P(ReloadTest, AFrameThatComesWhileTheOldLaneIsHeldUpIsComputedAtOnceAndPostprocessedLater) {
  Gate in_plugin, go_on, moved, enqueued;
  plugin_.process = [&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    in_plugin.open();
    go_on.wait();
    return seen_.note(frame);
  };
  Pipeline& pipeline = rig_.make({test::fake_camera(
      "a",
      [&](capture::FrameRing& ring, const std::atomic<bool>&) {
        (void)test::publish_frame(ring, rig_.clock.now());
        moved.wait();
        (void)test::publish_frame(ring, rig_.clock.now());
      },
      true)});
  test::FakeEngine engine(*rig_.device, test::works);
  std::atomic<int> frames{0};
  engine.when_enqueued([&] {
    if (++frames > 1) enqueued.open();  // the first one only warms the lane
  });
  FakePlugin other(
      [&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) { return seen_.note(frame); });
  PluginHost plugins({}, rig_.clock);
  other.add_to(plugins);
  test::declare(plugins, engine);
  pipeline.start();
  in_plugin.wait();
  // The added camera's frame can only be enqueued by the new lane, after camera 0, which comes first, was moved.
  PipelineChange next{{{"host", *rig_.device, engine, rig_.path}}, plugins, rig_.options, {}, {}, {}};
  next.cameras.push_back({1, test::fake_camera("b", test::publishes(rig_.clock, 1), true)});
  std::thread reload([&] { pipeline.reload(next); });
  enqueued.wait();
  moved.open();
  seen_.wait_for("b", 1);  // a camera with nothing in the old lane is not held up
  EXPECT_THAT(seen_.of("a"), IsEmpty());
  go_on.open();
  reload.join();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_THAT(seen_.of("a"), ElementsAre(0U, 1U));
  EXPECT_EQ(lost(), 0U);
  rig_.made.reset();  // before the engine and the plug-ins
}

// The first frame of each camera found a cold lane: kernels that were not loaded, graphs that were not captured.
TEST_P(ReloadTest, TheNewLaneIsWarmedWithThePicturesOfTheCamerasThatStay) {
  Pipeline& pipeline =
      rig_.make({test::fake_camera("a", test::publishes(rig_.clock, 1), true),
                 test::fake_camera("b", test::publishes(rig_.clock, 1), true), test::fake_camera("silent", nothing)});
  pipeline.start();
  seen_.wait_for("a", 1);
  seen_.wait_for("b", 1);
  std::vector<base::PictureLayout> warmed;
  bool accepted = false;
  test::FakeEngine engine(*rig_.device, [&](const infer::PictureView& picture) {
    EXPECT_FALSE(accepted);
    warmed.push_back(picture.layout);
    return Status();
  });
  PluginHost plugins({}, rig_.clock);
  plugin_.add_to(plugins);
  test::declare(plugins, engine);
  PipelineChange next{{{"host", *rig_.device, engine, rig_.path}}, plugins, rig_.options, {}, {}, {}};
  next.accepted = [&] { accepted = true; };
  pipeline.reload(next);
  EXPECT_TRUE(accepted);
  ASSERT_EQ(warmed.size(), 1U);  // a's and b's pictures are alike
  EXPECT_EQ(warmed[0], base::tight_layout(base::PixelFormat::kGray8, 8, 1));
  pipeline.stop(true);
  EXPECT_THAT(seen_.of("a"), ElementsAre(0U));
  EXPECT_EQ(pipeline.ledger().totals().captured, 2U);
  EXPECT_EQ(pipeline.ledger().totals().delivered, 2U);
  rig_.made.reset();  // before the engine and the plug-ins
}

TEST_P(ReloadTest, ALaneThatFindsNoMemoryWhileItIsWarmedIsRefused) {
  Pipeline& pipeline = rig_.make({test::fake_camera("a", endless(rig_.clock), true)});
  pipeline.start();
  seen_.wait_for("a", 1);
  test::FakeEngine engine(
      *rig_.device, [](const infer::PictureView&) { return Status(base::ErrorKind::kDevice, "no memory is left"); });
  PluginHost plugins({}, rig_.clock);
  plugin_.add_to(plugins);
  test::declare(plugins, engine);
  PipelineChange next{{{"host", *rig_.device, engine, rig_.path}}, plugins, rig_.options, {}, {}, {}};
  next.accepted = [] { ADD_FAILURE() << "was refused"; };
  EXPECT_THROW(pipeline.reload(next), base::Error);
  seen_.wait_for("a", seen_.of("a").size() + 3);
  pipeline.stop(true);
  EXPECT_TRUE(seen_.complete("a"));
  rig_.made.reset();  // before the engine and the plug-ins
}

TEST_P(ReloadTest, AnAlteredCameraKeepsItsSlotItsNumbersAndItsAccount) {
  Pipeline& pipeline = rig_.make({test::fake_camera("a", test::publishes(rig_.clock, 5), true),
                                  test::fake_camera("b", endless(rig_.clock), true)});
  pipeline.start();
  seen_.wait_for("a", 5);
  PipelineChange next = change();
  next.cameras.push_back({0, test::fake_camera("a", test::publishes(rig_.clock, 3), true)});
  bool accepted = false;
  next.accepted = [&] { accepted = true; };
  pipeline.reload(next);
  EXPECT_TRUE(accepted);
  seen_.wait_for("a", 8);
  pipeline.stop(true);
  EXPECT_THAT(seen_.of("a"), ElementsAre(0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U));
  EXPECT_EQ(pipeline.ledger().totals(0).captured, 8U);
  EXPECT_EQ(pipeline.ledger().totals(0).delivered, 8U);
  EXPECT_TRUE(seen_.complete("b"));
}

TEST_P(ReloadTest, ARefusedAddedCameraChangesNothing) {
  Pipeline& pipeline = rig_.make({test::fake_camera("a", endless(rig_.clock), true)});
  pipeline.start();
  PipelineChange next = change();
  next.cameras.push_back({1, test::fake_camera("b", endless(rig_.clock), true)});
  next.cameras.push_back({2, refusing("c")});
  next.accepted = [] { ADD_FAILURE() << "was refused"; };
  EXPECT_THROW(pipeline.reload(next), base::Error);
  ASSERT_EQ(pipeline.cameras().size(), 1U);
  EXPECT_EQ(pipeline.cameras()[0].name, "a");
  EXPECT_THAT(seen_.of("b"), IsEmpty());
  EXPECT_TRUE(pipeline.ledger().totals().balanced());
  seen_.wait_for("a", seen_.of("a").size() + 3);
  // The same slots can be had again.
  PipelineChange again = change();
  again.cameras.push_back({1, test::fake_camera("b", endless(rig_.clock), true)});
  pipeline.reload(again);
  seen_.wait_for("b", 3);
  pipeline.stop(true);
  EXPECT_TRUE(seen_.complete("a"));
  EXPECT_TRUE(pipeline.ledger().totals().balanced());
}

TEST_P(ReloadTest, ACameraWhoseAlterationIsRefusedIsOpenedAgainAsItWas) {
  Pipeline& pipeline = rig_.make({test::fake_camera("a", test::publishes(rig_.clock, 5), true),
                                  test::fake_camera("b", endless(rig_.clock), true)});
  pipeline.start();
  seen_.wait_for("a", 5);
  PipelineChange next = change();
  next.cameras.push_back({0, refusing("a")});
  next.cameras.push_back({2, test::fake_camera("c", endless(rig_.clock), true)});
  next.accepted = [] { ADD_FAILURE() << "was refused"; };
  EXPECT_THROW(pipeline.reload(next), base::Error);
  seen_.wait_for("a", 10);
  EXPECT_EQ(pipeline.cameras().size(), 2U);
  pipeline.stop(true);
  EXPECT_THAT(seen_.of("a"), ElementsAre(0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U));
  EXPECT_TRUE(seen_.complete("b"));
  EXPECT_TRUE(pipeline.ledger().totals().balanced());
  EXPECT_EQ(pipeline.ledger().totals(0).delivered, 10U);
}

TEST_P(ReloadTest, ARemovedCamerasFramesAreDeliveredAndItsAccountIsKept) {
  Pipeline& pipeline = rig_.make({test::fake_camera("a", test::publishes(rig_.clock, 7), true),
                                  test::fake_camera("b", endless(rig_.clock), true)});
  pipeline.start();
  seen_.wait_for("a", 1);
  PipelineChange next = change();
  next.removed.push_back(0);
  pipeline.reload(next);
  const Totals removed = pipeline.ledger().removed();
  EXPECT_TRUE(removed.balanced());
  EXPECT_EQ(removed.delivered, seen_.of("a").size());
  EXPECT_EQ(pipeline.ledger().totals(0).captured, 0U);
  ASSERT_EQ(pipeline.cameras().size(), 1U);
  EXPECT_EQ(pipeline.cameras()[0].index, 1U);
  // Another camera in its slot begins at 0.
  PipelineChange again = change();
  again.cameras.push_back({0, test::fake_camera("d", test::publishes(rig_.clock, 2), true)});
  pipeline.reload(again);
  seen_.wait_for("d", 2);
  pipeline.stop(true);
  EXPECT_THAT(seen_.of("d"), ElementsAre(0U, 1U));
  EXPECT_TRUE(seen_.complete("b"));
}

TEST_P(ReloadTest, ACameraThatDeliversNothingHoldsUpNoReload) {
  Pipeline& pipeline =
      rig_.make({test::fake_camera("dead", nothing), test::fake_camera("a", endless(rig_.clock), true)});
  pipeline.start();
  for (int i = 0; i < 10; ++i) {
    pipeline.reload(change());
    seen_.wait_for("a", seen_.of("a").size() + 3);
  }
  pipeline.stop(true);
  EXPECT_TRUE(seen_.complete("a"));
}

// A look at the load comes once a second; the reload must not look like a pause.
TEST_P(ReloadTest, ADeviceIsToldToDoWhatItDidBeforeTheReload) {
  base::ManualClock clock;
  test::Rig rig(clock);
  plugin_.add_to(rig.plugins);
  Pipeline& pipeline = rig.make({test::fake_camera("a", test::publishes(clock, 3), true)});
  pipeline.start();
  seen_.wait_for("a", 3);
  while (pipeline.ledger().totals().delivered < 3) std::this_thread::yield();
  clock.advance(std::chrono::seconds(2));
  (void)pipeline.wait_for_end(clock.now());
  EXPECT_EQ(pipeline.lanes().at(0).completed, 1.5);
  pipeline.reload({rig.lanes(), rig.plugins, rig.options, {}, {}, {}});
  EXPECT_EQ(pipeline.lanes().at(0).completed, 1.5);
  clock.advance(std::chrono::seconds(2));
  (void)pipeline.wait_for_end(clock.now());
  EXPECT_EQ(pipeline.lanes().at(0).completed, 0);
  pipeline.stop(true);
}

// Rings get the slots that plug-ins hold; nothing of what a camera has is made anew.
TEST_P(ReloadTest, APluginThatWantsPicturesJoinsWithoutALoss) {
  Pipeline& pipeline = rig_.make({test::fake_camera("a", endless(rig_.clock), true)});
  pipeline.start();
  seen_.wait_for("a", 3);
  std::atomic<int> pictures{0};
  FakePlugin wants(
      [&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
        if (frame.picture != nullptr) ++pictures;
        return seen_.note(frame);
      },
      true);
  PluginHost plugins({}, rig_.clock);
  wants.add_to(plugins);
  test::declare(plugins, rig_.engine);
  PipelineChange next{rig_.lanes(), plugins, rig_.options, {}, {}, {}};
  pipeline.reload(next);
  const std::size_t before = seen_.of("a").size();
  seen_.wait_for("a", before + 5);
  pipeline.reload(change());
  pipeline.stop(true);
  EXPECT_TRUE(seen_.complete("a"));
  EXPECT_GE(pictures.load(), 5);
  rig_.made.reset();  // before the plug-ins
}

// A live camera whose next picture comes when the last one was seen: none of them is superseded unless a reload makes
// it wait, and none may.
TEST_P(ReloadTest, LiveCamerasLoseNoFrameInAHundredSwapsOfNetworkAndPlugins) {
  rig_.options.max_age = std::chrono::hours(1);  // of a machine that has other things to do
  const auto live = [this](const std::string& name) {
    return test::fake_camera(name, [this, name](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
      for (std::size_t published = 0; !stopping;) {
        if (test::publish_frame(ring, rig_.clock.now())) ++published;
        while (!stopping && seen_.of(name).size() < published) std::this_thread::yield();
      }
    });
  };
  test::FakeEngine engine(*rig_.device, test::works);
  PluginHost plugins({}, rig_.clock);
  FakePlugin other(
      [this](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) { return seen_.note(frame); });
  other.add_to(plugins);
  test::declare(plugins, engine);
  Pipeline& pipeline = rig_.make({live("a"), live("b")});
  pipeline.start();
  for (int i = 0; i < 100; ++i) {
    seen_.wait_for("a", seen_.of("a").size() + 1);
    seen_.wait_for("b", seen_.of("b").size() + 1);
    if (i % 2 == 0) {
      pipeline.reload({{{"host", *rig_.device, engine, rig_.path}}, plugins, rig_.options, {}, {}, {}});
    } else {
      pipeline.reload(change());
    }
    EXPECT_EQ(lost(), 0U) << i;
  }
  pipeline.stop(true);
  EXPECT_TRUE(seen_.complete("a"));
  EXPECT_TRUE(seen_.complete("b"));
  const Totals totals = pipeline.ledger().totals();
  EXPECT_TRUE(totals.balanced());
  EXPECT_EQ(dropped(totals, DropReason::kSuperseded), 0U);
  rig_.made.reset();  // before the engine and the plug-ins
}

TEST_P(ReloadTest, OneThatMeetsTheEndOfEverySourceDeliversWhatIsOnItsWay) {
  Gate in_plugin, go_on;
  plugin_.process = [&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    in_plugin.open();
    go_on.wait();
    return seen_.note(frame);
  };
  Pipeline& pipeline = rig_.make({test::fake_camera("a", test::publishes(rig_.clock, 3), true)});
  pipeline.start();
  in_plugin.wait();
  while (pipeline.camera_status(0).state != SourceState::kEnded) std::this_thread::yield();
  std::thread reload([&] {
    PipelineChange next = change();
    next.cameras.push_back({1, test::fake_camera("b", test::publishes(rig_.clock, 2), true)});
    pipeline.reload(next);
  });
  while (pipeline.cameras().size() < 2) std::this_thread::yield();  // it is under way
  go_on.open();
  reload.join();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_THAT(seen_.of("a"), ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(seen_.of("b"), ElementsAre(0U, 1U));
  EXPECT_EQ(lost(), 0U);
}

TEST_P(ReloadTest, ARequestToEndThatComesMeanwhileEndsTheRunWithNothingLost) {
  Gate in_plugin, go_on;
  plugin_.process = [&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    in_plugin.open();
    go_on.wait();
    return seen_.note(frame);
  };
  Pipeline& pipeline = rig_.make({test::fake_camera("a", endless(rig_.clock), true)});
  pipeline.start();
  in_plugin.wait();
  std::thread reload([&] {
    PipelineChange next = change();
    next.cameras.push_back({1, test::fake_camera("b", endless(rig_.clock), true)});
    pipeline.reload(next);
  });
  while (pipeline.cameras().size() < 2) std::this_thread::yield();
  pipeline.request_end();
  go_on.open();
  reload.join();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kRequested);
  pipeline.stop(true);
  EXPECT_TRUE(seen_.complete("a"));
  EXPECT_TRUE(seen_.complete("b"));
  const Totals totals = pipeline.ledger().totals();
  EXPECT_TRUE(totals.balanced());
  EXPECT_EQ(totals.in_flight, 0);
  EXPECT_EQ(totals.dropped_sum(), dropped(totals, DropReason::kShutdown));
}

TEST_P(ReloadTest, NeedsARunningPipeline) {
  Pipeline& pipeline = rig_.make({test::fake_camera("a", test::publishes(rig_.clock, 1), true)});
  EXPECT_THROW(pipeline.reload(change()), base::Error);
  pipeline.start();
  pipeline.stop(true);
  EXPECT_THROW(pipeline.reload(change()), base::Error);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
