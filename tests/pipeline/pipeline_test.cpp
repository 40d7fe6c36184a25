#include "pipeline/core/pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "capture/camera_clock.hpp"
#include "capture/test_pattern.hpp"
#include "tests/pipeline/rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::ManualClock;
using base::Status;
using base::TimePoint;
using std::chrono::milliseconds;
using test::dropped;
using test::Gate;
using test::publishes;
using test::Rig;
using testing::ElementsAre;
using testing::HasSubstr;

class PipelineTest : public test::OnStreams {};
INSTANTIATE_TEST_SUITE_P(Streams, PipelineTest, testing::Bool(), test::name_of_streams);

TEST_P(PipelineTest, DeliversEveryFrameOfALosslessCameraInOrder) {
  Rig rig;
  std::vector<std::uint64_t> sequences;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    sequences.push_back(frame.sequence);
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Pipeline& pipeline = rig.make({test::fake_camera("file", publishes(rig.clock, 500), true)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  std::vector<std::uint64_t> expected(500);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(sequences, expected);
  EXPECT_EQ(pipeline.ledger().totals().delivered, 500U);
  EXPECT_EQ(pipeline.ledger().totals().dropped_sum(), 0U);
}

TEST_P(PipelineTest, DeliversEachCamerasFramesInOrderWhileTheDeviceHoldsSeveral) {
  constexpr int kFrames = 300;
  Rig rig;
  rig.device_depth = 3;
  base::Mutex mutex;
  std::map<std::int32_t, std::vector<std::uint64_t>> sequences;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    base::MutexLock lock(mutex);
    sequences[frame.camera_index].push_back(frame.sequence);
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Pipeline& pipeline = rig.make({test::fake_camera("one", publishes(rig.clock, kFrames), true),
                                 test::fake_camera("two", publishes(rig.clock, kFrames), true)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  std::vector<std::uint64_t> expected(kFrames);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(sequences[0], expected);
  EXPECT_EQ(sequences[1], expected);
}

TEST_P(PipelineTest, DeliversTheNewestFrameAndCountsTheOlderOnesAsSupersededWhileAPluginIsBusy) {
  Rig rig;
  Gate entered;
  Gate leave;
  Gate published;
  std::vector<std::uint64_t> sequences;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    sequences.push_back(frame.sequence);
    if (sequences.size() == 1) {
      entered.open();
      leave.wait();
    }
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Pipeline* made = nullptr;
  Pipeline& pipeline = rig.make({test::fake_camera("door", [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    (void)test::publish_frame(ring, rig.clock.now());
    entered.wait();  // frame 0 is with the plug-in
    (void)test::publish_frame(ring, rig.clock.now());
    while (ring.has_ready()) std::this_thread::yield();  // frame 1 waits behind it; the camera's limit is reached
    for (int i = 2; i <= 9; ++i) (void)test::publish_frame(ring, rig.clock.now());
    published.open();
  })});
  made = &pipeline;
  pipeline.start();
  published.wait();
  leave.open();
  EXPECT_EQ(made->wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_THAT(sequences, ElementsAre(0U, 1U, 9U));
  EXPECT_EQ(dropped(pipeline.ledger().totals(0), DropReason::kSuperseded), 7U);
}

// The connection says nothing for three seconds, then hands over all that waited.
TEST_P(PipelineTest, DropsTheBacklogOfAStallAsTooOld) {
  ManualClock clock;
  Rig rig(clock, [](const infer::PictureView&) -> Status { return {}; });
  rig.options.max_age = milliseconds(190);
  std::int64_t uncertainty_ns = -1;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    uncertainty_ns = frame.captured_uncertainty_ns;
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  base::Duration told{};
  Pipeline& pipeline = rig.make({test::fake_camera("door", [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    constexpr base::Duration kPeriod = milliseconds(40);
    capture::CameraClock times(capture::CameraClock::Stamps::kCameras);
    for (int k = 0; k < 200; ++k) {
      if (k < 100 || k >= 175) clock.advance(kPeriod);
      if (k == 100) clock.advance(milliseconds(3000));
      const TimePoint now = clock.now();
      const capture::CaptureTime time = times.captured(times.observe(k * kPeriod, now), now);
      told = time.uncertainty;
      (void)test::publish_frame(ring, now, time);
      while (ring.has_ready()) std::this_thread::yield();
    }
  })});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(dropped(pipeline.ledger().totals(0), DropReason::kTooOld), 70U);  // of the 75: those older
  EXPECT_EQ(pipeline.ledger().totals().delivered, 130U);
  EXPECT_EQ(uncertainty_ns, told.count());
}

TEST_P(PipelineTest, DropsFramesOlderThanMaxAgeBeforeTheyCostDeviceTime) {
  std::atomic<int> runs{0};
  Rig rig(base::system_clock(), [&runs](const infer::PictureView&) -> Status {
    ++runs;
    return {};
  });
  rig.options.max_age = milliseconds(200);
  Pipeline& pipeline = rig.make({test::fake_camera("door", [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    (void)test::publish_frame(ring, rig.clock.now() - milliseconds(201));
    while (ring.has_ready()) std::this_thread::yield();
    (void)test::publish_frame(ring, rig.clock.now());
  })});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(dropped(pipeline.ledger().totals(0), DropReason::kTooOld), 1U);
  EXPECT_EQ(pipeline.ledger().totals(0).delivered, 1U);
  EXPECT_EQ(runs, 1);
}

TEST_P(PipelineTest, KeepsTheAgeOfFramesAndItsMemoryBoundedOverTenMinutesOfAPluginThatTakes200Ms) {
  ManualClock clock;
  Rig rig(clock);
  rig.options.max_age = milliseconds(200);
  std::atomic<std::int64_t> busy_until{0};
  std::atomic<bool> ending{false};
  std::vector<std::pair<TimePoint, base::Duration>> ages;
  ages.reserve(10'000);
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    const TimePoint until = clock.now() + milliseconds(200);
    busy_until = base::to_ns(until);
    while (clock.now() < until && !ending) std::this_thread::yield();
    ages.emplace_back(clock.now(), clock.now() - base::from_ns(frame.captured_mono_ns));
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Gate stop;
  std::atomic<std::uint64_t> to_publish{0};
  std::atomic<std::uint64_t> published{0};
  Pipeline& pipeline =
      rig.make({test::fake_camera("door", [&](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
        while (!stopping) {
          if (published < to_publish) {
            (void)test::publish_frame(ring, clock.now());
            ++published;
          } else {
            std::this_thread::yield();
          }
        }
      })});
  pipeline.start();
  const TimePoint start = clock.now();
  constexpr std::int64_t kFrames = std::int64_t{30} * 600;
  std::size_t memory_after_a_minute = 0;
  for (std::int64_t f = 0; f < kFrames; ++f) {
    ++to_publish;
    while (published < to_publish) std::this_thread::yield();
    // The plug-in has always work: time may go on only once it has begun on the frame that this moment gave it.
    while (base::from_ns(busy_until) <= clock.now()) std::this_thread::yield();
    if (f == std::int64_t{30} * 60) memory_after_a_minute = mallinfo2().uordblks;
    clock.advance(start + std::chrono::nanoseconds(1'000'000'000 / 30) * (f + 1) - clock.now());
  }
  const std::size_t memory_at_the_end = mallinfo2().uordblks;
  ending = true;
  pipeline.stop(false);

  ASSERT_GT(ages.size(), 2'500U);  // 600 s of 200 ms each, rounded up to the next tick of the clock (233 ms)
  base::Duration first_minute{0};
  base::Duration last_minute{0};
  for (const auto& [when, age] : ages) {
    // Two stays with the plug-in (its own, and the one of the frame before) and the frame period, in ticks.
    EXPECT_LE(age, milliseconds(501));
    if (when < start + std::chrono::minutes(1)) first_minute = std::max(first_minute, age);
    if (when > start + std::chrono::minutes(9)) last_minute = std::max(last_minute, age);
  }
  EXPECT_LE(last_minute, first_minute + milliseconds(34));
  EXPECT_LE(memory_at_the_end, memory_after_a_minute + 4096);
  EXPECT_EQ(pipeline.ledger().totals().in_flight, 0);
}

TEST_P(PipelineTest, ReportsTheTotalLatencyThatThePixelsThemselvesProve) {
  Rig rig(base::system_clock(), [](const infer::PictureView&) -> Status {
    test::spin(3'000'000);  // a network of a millisecond or more
    return {};
  });
  std::vector<double> real_us;
  test::FakePlugin plugin(
      [&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
        const base::PictureLayout layout = base::tight_layout(base::PixelFormat::kBgr, frame.width, frame.height);
        EXPECT_EQ(frame.picture->planes[0].stride_bytes, layout.planes[0].stride_bytes);
        const auto stamp = capture::read_test_pattern(
            layout, {reinterpret_cast<const std::byte*>(frame.picture->planes[0].data), layout.size_bytes});
        EXPECT_TRUE(stamp.has_value());
        if (stamp) {
          EXPECT_EQ(stamp->sequence, frame.sequence);
          real_us.push_back(static_cast<double>(base::to_ns(rig.clock.now()) - stamp->birth_ns) / 1000);
        }
        return static_cast<int>(CAMD_OK);
      },
      true);
  plugin.add_to(rig.plugins);
  config::Camera camera;
  camera.name = "test";
  config::TestSource source;
  source.width = 640;
  source.height = 360;
  source.fps = 120;
  source.frames = 240;
  camera.source = source;
  Pipeline& pipeline = rig.make(
      {{"test", false, [&](capture::CameraIndex index, capture::FrameRing& ring, capture::SourceListener& listener) {
          return capture::make_source(camera, index, ring, listener, rig.clock);
        }}});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  const CameraMetrics metrics = pipeline.metrics().take(0);
  const LatencySummary& reported = metrics.latency[static_cast<std::size_t>(Stage::kTotal)];
  ASSERT_EQ(reported.count, real_us.size());
  ASSERT_GT(real_us.size(), 10U);  // a slow machine drops most of them
  std::sort(real_us.begin(), real_us.end());
  constexpr double kMillisecond = 1000;
  const auto bound = [](double us) { return kMillisecond + us / 128; };  // the histogram's own error comes on top
  EXPECT_NEAR(reported.p50, real_us[(real_us.size() - 1) / 2], bound(reported.p50));
  EXPECT_NEAR(reported.max, real_us.back(), kMillisecond);
}

TEST_P(PipelineTest, SplitsTheTotalIntoStagesThatAddUpToIt) {
  Rig rig;
  Pipeline& pipeline = rig.make({test::fake_camera("door", publishes(rig.clock, 1))});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  const CameraMetrics metrics = pipeline.metrics().take(0);
  double sum = 0;
  for (std::size_t i = 1; i < kStageCount; ++i) sum += metrics.latency[i].max;  // one frame: the maximum is its time
  EXPECT_NEAR(sum, metrics.latency[static_cast<std::size_t>(Stage::kTotal)].max, 0.01);
  EXPECT_EQ(metrics.frames, 1U);
}

TEST_P(PipelineTest, GoesOnWithOtherFramesWhenAPluginFails) {
  Rig rig;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results& results, camd_error& error) {
    if (frame.sequence == 1) {
      std::snprintf(error.message, sizeof(error.message), "cannot");
      return static_cast<int>(CAMD_ERROR_FAILED);
    }
    if (frame.sequence == 2) results.count = results.capacity + 1;
    if (frame.sequence == 3) {
      results.count = 1;
      results.items[0].score = std::numeric_limits<float>::quiet_NaN();
    }
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Pipeline& pipeline = rig.make({test::fake_camera("file", publishes(rig.clock, 6), true)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(dropped(pipeline.ledger().totals(0), DropReason::kPluginError), 3U);
  EXPECT_EQ(pipeline.ledger().totals(0).delivered, 3U);
}

TEST_P(PipelineTest, AccountsForEveryFrameWhenTheDeviceIsLostAndSaysSoOnce) {
  device::HostDevice* device = nullptr;
  std::atomic<int> runs{0};
  Rig rig(base::system_clock(), [&](const infer::PictureView&) -> Status {
    if (++runs == 10) device->inject_failure(Status(base::ErrorKind::kDeviceLost, "pulled out"));
    return {};
  });
  device = rig.device.get();
  test::Losses losses;
  Pipeline& pipeline = rig.make({test::fake_camera("a", publishes(rig.clock, 100), true)}, &losses);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kDeviceLost);
  pipeline.stop(true);
  const Totals totals = pipeline.ledger().totals(0);
  EXPECT_EQ(totals.in_flight, 0);
  EXPECT_TRUE(totals.balanced());
  EXPECT_GE(dropped(totals, DropReason::kDeviceError), 1U);
  ASSERT_EQ(losses.lost.size(), 1U);
  EXPECT_THAT(losses.lost[0], HasSubstr("pulled out"));
}

TEST_P(PipelineTest, GoesOnWhenTheNetworkFailsForOneFrame) {
  std::atomic<int> runs{0};
  Rig rig(base::system_clock(), [&runs](const infer::PictureView&) -> Status {
    return ++runs == 3 ? Status(base::ErrorKind::kModel, "cannot") : Status();
  });
  Pipeline& pipeline = rig.make({test::fake_camera("file", publishes(rig.clock, 5), true)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(pipeline.ledger().totals(0).delivered, 4U);
  EXPECT_EQ(dropped(pipeline.ledger().totals(0), DropReason::kDeviceError), 1U);
}

TEST_P(PipelineTest, KeepsOtherCamerasGoingWhileOneHasEnded) {
  Rig rig;
  Gate first_ended;
  std::map<std::string, int> delivered;
  base::Mutex mutex;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    base::MutexLock lock(mutex);
    ++delivered[frame.camera];
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Pipeline& pipeline = rig.make({test::fake_camera("short", publishes(rig.clock, 2), true),
                                 test::fake_camera(
                                     "long",
                                     [&](capture::FrameRing& ring, const std::atomic<bool>&) {
                                       first_ended.wait();
                                       for (int i = 0; i < 5; ++i) (void)test::publish_frame(ring, rig.clock.now());
                                     },
                                     true)});
  pipeline.start();
  while (pipeline.camera_status(0).state != capture::SourceState::kEnded) std::this_thread::yield();
  first_ended.open();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(delivered["short"], 2);
  EXPECT_EQ(delivered["long"], 5);
}

TEST_P(PipelineTest, KeepsOneCameraGoingWhileAnotherCamerasFrameIsStuckInAPlugin) {
  Rig rig;
  Gate stuck;
  Gate other_done;
  std::atomic<int> other{0};
  // Two instances of one plug-in would share a lock: each camera has work in its own here.
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    if (frame.camera_index == 1 && ++other == 20) other_done.open();
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Gate hold;
  Pipeline& pipeline = rig.make({test::fake_camera("stuck",
                                                   [&](capture::FrameRing& ring, const std::atomic<bool>&) {
                                                     auto lease = ring.begin();  // a source that hangs in its fill
                                                     hold.wait();
                                                   }),
                                 test::fake_camera("lively", publishes(rig.clock, 20), true)});
  pipeline.start();
  other_done.wait();
  hold.open();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(dropped(pipeline.ledger().totals(0), DropReason::kSourceError), 1U);
  EXPECT_EQ(pipeline.ledger().totals(1).delivered, 20U);
}

TEST_P(PipelineTest, TellsAPluginWhereEachPictureOfItsOwnSizeLiesInTheNetworksInput) {
  Rig rig;  // the network's input is 4x4
  std::vector<std::pair<int, float>> seen;
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    seen.emplace_back(frame.width, frame.scale_x);
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  const auto body = [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    for (const int width : {8, 16, 16, 8}) {
      std::optional<capture::FillLease> lease = ring.begin();
      (void)lease->data(base::tight_layout(base::PixelFormat::kGray8, width, 4));
      lease->publish(rig.clock.now(), rig.clock.now());
    }
  };
  Pipeline& pipeline = rig.make({test::fake_camera("door", body, true)});
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_THAT(seen, ElementsAre(testing::Pair(8, 0.5F), testing::Pair(16, 0.25F), testing::Pair(16, 0.25F),
                                testing::Pair(8, 0.5F)));
}

TEST_P(PipelineTest, EndsAtTheFrameLimit) {
  Rig rig;
  Pipeline& pipeline = rig.make({test::fake_camera(
      "endless",
      [&](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
        while (!stopping) (void)test::publish_frame(ring, rig.clock.now());
      },
      true)});
  pipeline.set_frame_limit(25);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(TimePoint::max()), EndReason::kFrameLimit);
  pipeline.stop(true);
  EXPECT_GE(pipeline.ledger().totals().delivered, 25U);
  EXPECT_EQ(pipeline.ledger().totals().in_flight, 0);
}

TEST_P(PipelineTest, DropsWaitingFramesAsShutdownWhenTheyShallNotBeDelivered) {
  Rig rig;
  Gate entered;
  Gate leave;
  Gate published;
  test::FakePlugin plugin([&](const camd_frame&, const camd_tensors&, camd_results&, camd_error&) {
    entered.open();
    leave.wait();
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);
  Pipeline& pipeline = rig.make({test::fake_camera("door", [&](capture::FrameRing& ring, const std::atomic<bool>&) {
    (void)test::publish_frame(ring, rig.clock.now());
    entered.wait();
    (void)test::publish_frame(ring, rig.clock.now());
    while (ring.has_ready()) std::this_thread::yield();
    (void)test::publish_frame(ring, rig.clock.now());
    published.open();
  })});
  pipeline.start();
  published.wait();
  std::thread stopper([&pipeline] { pipeline.stop(false); });
  while (dropped(pipeline.ledger().totals(0), DropReason::kShutdown) == 0) std::this_thread::yield();
  leave.open();
  stopper.join();
  EXPECT_EQ(pipeline.ledger().totals(0).delivered, 2U);
  EXPECT_EQ(dropped(pipeline.ledger().totals(0), DropReason::kShutdown), 1U);
}

// Each was asked and waited for before the next one was asked.
TEST_P(PipelineTest, AsksAllSourcesToStopBeforeItWaitsForOne) {
  class Noting final : public capture::FrameSource {
   public:
    explicit Noting(std::vector<std::string>& calls) : calls_(calls) {}
    void start() override {}
    void request_stop() noexcept override { calls_.emplace_back("ask"); }
    bool join(base::Duration patience) noexcept override {
      EXPECT_LE(patience, capture::kStopPatience);
      calls_.emplace_back("wait");
      return false;  // hangs: is left behind
    }

   private:
    std::vector<std::string>& calls_;
  };
  Rig rig;
  std::vector<std::string> calls;
  const auto camera = [&](const std::string& name) {
    return CameraSpec{name, false, [&](capture::CameraIndex, capture::FrameRing&, capture::SourceListener&) {
                        return std::make_unique<Noting>(calls);
                      }};
  };
  Pipeline& pipeline = rig.make({camera("a"), camera("b"), camera("c")});
  pipeline.start();
  pipeline.stop(true);
  EXPECT_THAT(calls, testing::ElementsAre("ask", "ask", "ask", "wait", "wait", "wait"));
  EXPECT_EQ(pipeline.state(), PipelineState::kStopped);
}

// A GPU's driver destroys hundreds of decoders one after the other: camd had not ended 8 s after SIGINT.
TEST_P(PipelineTest, KeepsSourcesThatItHasNoTimeToDestroyUntilItIsDestroyedItself) {
  class Counted final : public capture::FrameSource {
   public:
    explicit Counted(int& alive) : alive_(alive) { ++alive_; }
    ~Counted() override { --alive_; }
    void start() override {}
    void request_stop() noexcept override {}
    bool join(base::Duration) noexcept override { return true; }

   private:
    int& alive_;
  };
  int alive = 0;
  const auto camera = [&](const std::string& name) {
    return CameraSpec{name, false, [&](capture::CameraIndex, capture::FrameRing&, capture::SourceListener&) {
                        return std::make_unique<Counted>(alive);
                      }};
  };
  for (const bool in_time : {true, false}) {
    Rig rig;
    Pipeline& pipeline = rig.make({camera("a"), camera("b")});
    pipeline.start();
    EXPECT_TRUE(
        pipeline.stop(true, pipeline::kPluginPatience, in_time ? std::chrono::hours(1) : base::Duration::zero()));
    EXPECT_EQ(pipeline.keeps_sources(), !in_time);
    EXPECT_EQ(alive, in_time ? 0 : 2);
    EXPECT_EQ(pipeline.state(), PipelineState::kStopped);
    rig.made.reset();
    EXPECT_EQ(alive, 0);
  }
}

TEST_P(PipelineTest, RefusesASecondStartWithStateCallAndRequiredState) {
  Rig rig;
  Pipeline& pipeline = rig.make({test::fake_camera("door", publishes(rig.clock, 1))});
  pipeline.start();
  try {
    pipeline.start();
    FAIL() << "start() twice";
  } catch (const base::Error& error) {
    EXPECT_STREQ(error.what(), "in state Running, start() needs state Idle");
  }
}

TEST_P(PipelineTest, StopsTheOtherSourcesWhenOneCannotStart) {
  Rig rig;
  Pipeline& pipeline = rig.make({test::fake_camera("good",
                                                   [&](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
                                                     while (!stopping) (void)test::publish_frame(ring, rig.clock.now());
                                                   }),
                                 {"bad", false,
                                  [](capture::CameraIndex, capture::FrameRing&,
                                     capture::SourceListener&) -> std::unique_ptr<capture::FrameSource> {
                                    throw base::Error(base::ErrorKind::kSource, "no such camera");
                                  }}});
  EXPECT_THROW(pipeline.start(), base::Error);
  EXPECT_EQ(pipeline.state(), PipelineState::kFailed);
  EXPECT_EQ(pipeline.ledger().totals().in_flight, 0);
}

TEST(Pipeline, NamesPixelFormatsInTheOrderOfThePluginInterface) {
  EXPECT_EQ(static_cast<int>(base::PixelFormat::kBgr), CAMD_PIXEL_BGR);
  EXPECT_EQ(static_cast<int>(base::PixelFormat::kRgb), CAMD_PIXEL_RGB);
  EXPECT_EQ(static_cast<int>(base::PixelFormat::kNv12), CAMD_PIXEL_NV12);
  EXPECT_EQ(static_cast<int>(base::PixelFormat::kI420), CAMD_PIXEL_I420);
  EXPECT_EQ(static_cast<int>(base::PixelFormat::kYuy2), CAMD_PIXEL_YUY2);
  EXPECT_EQ(static_cast<int>(base::PixelFormat::kGray8), CAMD_PIXEL_GRAY8);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
