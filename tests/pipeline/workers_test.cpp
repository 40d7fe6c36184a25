// Who does which of the pipeline's jobs, and when: workers, and sources where the device works by itself.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/semaphore.hpp"
#include "tests/pipeline/rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::Status;
using base::TimePoint;
using test::dropped;
using test::Gate;
using test::publishes;
using test::Rig;

class PipelineWorkersTest : public test::OnStreams {};
INSTANTIATE_TEST_SUITE_P(Streams, PipelineWorkersTest, testing::Bool(), test::name_of_streams);

// One worker in the plug-in, one at the device, one dispatching: nobody is asleep whom a fourth frame could wake. Only
// where sources do not dispatch themselves.
TEST(PipelineWorkers, TakesAFrameThatCameWhileEveryWorkerWasBusy) {
  Gate in_plugin, at_device, dispatching, leave;
  int networks = 0, enqueued = 0;
  const auto network = [&](const infer::PictureView&) -> Status {
    if (++networks == 2) {
      at_device.open();
      leave.wait();
    }
    return {};
  };
  Rig rig(base::system_clock(), network, false);
  rig.engine.when_enqueued([&] {
    if (++enqueued == 3) {
      dispatching.open();
      leave.wait();
    }
  });
  rig.device_depth = 3;
  std::vector<std::uint64_t> sequences;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    if (sequences.empty()) {
      in_plugin.open();
      leave.wait();
    }
    sequences.push_back(frame.sequence);
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  const auto body = [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    for (Gate* gate : {&in_plugin, &at_device, &dispatching}) {
      (void)test::publish_frame(ring, rig.clock.now());
      gate->wait();
    }
    (void)test::publish_frame(ring, rig.clock.now());
    leave.open();
  };
  Pipeline& pipeline = rig.make({test::fake_camera("door", body, true)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(sequences, (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

TEST_P(PipelineWorkersTest, LetsNoFrameGoThatALostDeviceStillWorksOn) {
  constexpr int kTurns = 10'000;  // enough for a frame that is let go too early
  std::atomic<bool> told{false};
  bool told_too_early = false;
  Rig* made = nullptr;
  Rig rig(base::system_clock(), [&](const infer::PictureView&) -> Status {
    made->device->inject_failure({base::ErrorKind::kDeviceLost, "pulled out"});
    for (int i = 0; i < kTurns && !told; ++i) std::this_thread::yield();
    told_too_early = told;
    return {};
  });
  made = &rig;
  struct Listener final : PipelineListener {
    explicit Listener(std::atomic<bool>& flag) : told(flag) {}
    void camera_changed(capture::CameraIndex, capture::SourceState, const std::string&) override {}
    void device_lost(const std::string&, const std::string&) override { told = true; }
    std::atomic<bool>& told;
  } listener(told);
  Pipeline& pipeline = rig.make({test::fake_camera("door", publishes(rig.clock, 1), true)}, &listener);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kDeviceLost);
  pipeline.stop(true);
  EXPECT_FALSE(told_too_early);
  EXPECT_EQ(dropped(pipeline.ledger().totals(), DropReason::kDeviceError), 1U);
}

// Whoever dispatches "slow", its source or a worker, stands still meanwhile: "quick" must not have to wait for that,
// and its frame must not be forgotten.
TEST_P(PipelineWorkersTest, TakesAFrameThatCameWhileAnotherCamerasWasDispatched) {
  Gate dispatching, published;
  int enqueued = 0;
  Rig rig;
  rig.options.max_age = std::chrono::hours(1);
  rig.engine.when_enqueued([&] {
    if (++enqueued != 1) return;
    dispatching.open();
    published.wait();
  });
  const auto slow = [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    (void)test::publish_frame(ring, rig.clock.now());
  };
  const auto quick = [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    dispatching.wait();
    (void)test::publish_frame(ring, rig.clock.now());
    published.open();
  };
  Pipeline& pipeline = rig.make({test::fake_camera("slow", slow), test::fake_camera("quick", quick)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(pipeline.ledger().totals(0).delivered, 1U);
  EXPECT_EQ(pipeline.ledger().totals(1).delivered, 1U);
}

// Publishes frames, each when the one before was delivered, until one was dispatched on the source's thread: not every
// one needs to be, because a worker that is about to fall asleep may take it.
bool source_dispatches(bool lossless) {
  constexpr int kMostFrames = 10'000;  // where it does
  constexpr int kFewFrames = 100;      // where it does not
  const int frames = PipelineWorkersTest::GetParam() && !lossless ? kMostFrames : kFewFrames;
  Rig rig;
  rig.options.max_age = std::chrono::hours(1);
  std::thread::id source;
  bool by_source = false;
  rig.engine.when_enqueued([&] { by_source = by_source || std::this_thread::get_id() == source; });
  base::Semaphore delivered;
  test::FakePlugin plugin([&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    delivered.release();
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  const auto body = [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    source = std::this_thread::get_id();
    for (int i = 0; i < frames && !by_source; ++i) {
      (void)test::publish_frame(ring, rig.clock.now());
      delivered.acquire();
    }
  };
  Pipeline& pipeline = rig.make({test::fake_camera("door", body, lossless)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  return by_source;
}

TEST_P(PipelineWorkersTest, LetsASourceDispatchWhereTheDeviceWorksByItself) {
  EXPECT_EQ(source_dispatches(false), GetParam());
}

TEST_P(PipelineWorkersTest, LetsALosslessSourceGoOnInsteadOfDispatching) { EXPECT_FALSE(source_dispatches(true)); }

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
