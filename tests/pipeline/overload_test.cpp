// More cameras than the device can take: whose frames are delivered, how old they are, and what the ledger says of the
// others. The device works by permits of the test, so each count is exact.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "base/semaphore.hpp"
#include "rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using std::chrono::milliseconds;
using test::dropped;
using test::Rig;

class OverloadTest : public test::OnStreams {};

TEST_P(OverloadTest, GivesEachCameraItsShareOfFreshFramesAndCountsTheOthersAsSuperseded) {
  constexpr std::size_t kCameras = 20;
  constexpr int kRounds = 100;
  constexpr int kTaken = 7;  // of the 20 frames of each round
  constexpr int kDepth = 2;  // frames on the device
  constexpr base::Duration kPeriod = milliseconds(33);

  base::ManualClock clock;
  base::Semaphore permits;
  base::Semaphore dispatched;
  base::Semaphore delivered;
  Rig rig(clock, [&](const infer::PictureView&) -> base::Status {
    permits.acquire();
    return {};
  });
  rig.device_depth = kDepth;
  rig.options.max_age = std::chrono::hours(1);
  rig.engine.when_enqueued([&] { dispatched.release(); });
  std::vector<base::Duration> ages;  // one plug-in, so one call at a time
  test::FakePlugin plugin([&](const camd_frame& frame, const camd_tensors&, camd_results&, camd_error&) {
    ages.push_back(clock.now() - base::from_ns(frame.captured_mono_ns));
    delivered.release();
    return static_cast<int>(CAMD_OK);
  });
  plugin.add_to(rig.plugins);

  std::array<std::atomic<capture::FrameRing*>, kCameras> rings{};
  std::vector<CameraSpec> cameras;
  for (std::size_t i = 0; i < kCameras; ++i) {
    cameras.push_back(
        test::fake_camera("c" + std::to_string(i), [&, i](capture::FrameRing& ring, const auto& stopping) {
          rings[i] = &ring;
          while (!stopping) std::this_thread::yield();
          // The rings are closed: nothing more comes behind what is on the device.
          for (int k = 0; i == 0 && k < kDepth; ++k) permits.release();
        }));
  }
  Pipeline& pipeline = rig.make(std::move(cameras));
  pipeline.start();
  for (auto& ring : rings) {
    while (ring == nullptr) std::this_thread::yield();
  }
  for (int round = 0; round < kRounds; ++round) {
    clock.advance(kPeriod);
    for (auto& ring : rings) ASSERT_TRUE(test::publish_frame(*ring, clock.now()));
    for (int i = 0; round == 0 && i < kDepth; ++i) dispatched.acquire();
    for (int i = 0; i < kTaken; ++i) permits.release();
    for (int i = 0; i < kTaken; ++i) delivered.acquire();
    for (int i = 0; i < kTaken; ++i) dispatched.acquire();  // what comes next is on the device already
  }
  EXPECT_EQ(ages.size(), static_cast<std::size_t>(kRounds * kTaken));
  // The newest picture of its camera, and at most one period on the device.
  for (const base::Duration age : ages) EXPECT_LE(age, kPeriod);

  pipeline.stop(false);
  for (capture::CameraIndex camera = 0; camera < kCameras; ++camera) {
    const Totals totals = pipeline.ledger().totals(camera);
    EXPECT_EQ(totals.captured, static_cast<std::uint64_t>(kRounds));
    EXPECT_GE(totals.delivered, 35U) << camera;  // 100 * 7 / 20
    EXPECT_LE(totals.delivered, 36U) << camera;  // those that were on the device at the end
    const std::uint64_t waited = dropped(totals, DropReason::kShutdown);
    EXPECT_LE(waited, 2U);  // those that its ring still held
    EXPECT_EQ(dropped(totals, DropReason::kSuperseded), kRounds - totals.delivered - waited);
    EXPECT_EQ(totals.dropped_sum(), kRounds - totals.delivered);
  }
  EXPECT_EQ(pipeline.ledger().totals().delivered, static_cast<std::uint64_t>(kRounds * kTaken + kDepth));
}

INSTANTIATE_TEST_SUITE_P(Streams, OverloadTest, testing::Bool(), test::name_of_streams);

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
