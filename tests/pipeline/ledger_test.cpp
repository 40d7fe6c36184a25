#include "pipeline/core/ledger.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/pipeline/support.hpp"
#include "tests/support/sanitized.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::Status;
using std::chrono::milliseconds;

TEST(Ledger, CountsAFrameInFlightUntilItIsClosed) {
  Ledger ledger(2);
  ledger.captured(1);
  EXPECT_EQ(ledger.totals(1).in_flight, 1);
  ledger.delivered(1);
  EXPECT_EQ(ledger.totals(1).in_flight, 0);
  EXPECT_EQ(ledger.totals(1).delivered, 1U);
  EXPECT_EQ(ledger.totals(0).captured, 0U);
}

TEST(Ledger, ShowsAFrameThatWasClosedTwiceAsUnbalanced) {
  Ledger ledger(1);
  ledger.captured(0);
  ledger.delivered(0);
  EXPECT_TRUE(ledger.totals(0).balanced());
  ledger.dropped(0, DropReason::kTooOld);
  EXPECT_FALSE(ledger.totals(0).balanced());
}

// Something that takes a random while, without sleeping: stalls must vary in kind, not be long.
void stall(std::mt19937& random) {
  const auto kind = random() % 16;
  if (kind == 0) {
    for (auto i = random() % 4; i > 0; --i) std::this_thread::yield();
  } else if (kind == 1) {
    test::spin(random() % 20000);
  }
}

struct Tally {
  std::uint64_t captured = 0;
  std::uint64_t lines = 0;
};

// One run with a random shape, stopped at a random moment; the equation is read all the while by another thread.
Tally random_run(unsigned seed) {
  std::mt19937 random(seed);
  const base::Clock& clock = base::system_clock();
  auto device = device::make_host_device(clock);
  std::atomic<unsigned> salt{seed};
  test::FakeEngine engine(*device, [&salt](const infer::PictureView&) -> Status {
    thread_local std::mt19937 own(salt++);
    stall(own);
    if (own() % 500 == 0) return {base::ErrorKind::kModel, "a random failure of the network"};
    return {};
  });
  test::FakePlugin plugin(
      [&salt](const camd_frame&, const camd_tensors&, camd_results& results, camd_error&) {
        thread_local std::mt19937 own(salt++);
        stall(own);
        const auto fate = own() % 1000;
        if (fate == 0) return static_cast<int>(CAMD_ERROR_FAILED);
        if (fate == 1) results.count = -1;
        return static_cast<int>(CAMD_OK);
      },
      random() % 2 == 0);
  PluginHost plugins({}, clock);
  plugin.add_to(plugins);
  test::declare(plugins, engine);

  const std::size_t cameras = 1 + random() % 4;
  std::vector<CameraSpec> specs;
  std::vector<bool> lossless;
  for (std::size_t i = 0; i < cameras; ++i) {
    lossless.push_back(random() % 4 == 0);
    const std::uint64_t frames = 1 + random() % 20000;
    specs.push_back(test::fake_camera(
        "camera" + std::to_string(i),
        [&clock, &salt, frames](capture::FrameRing& ring, const std::atomic<bool>& stopping) {
          std::mt19937 own(salt++);
          for (std::uint64_t f = 0; f < frames && !stopping; ++f) {
            stall(own);
            if (own() % 300 == 0) {
              (void)ring.begin();  // a slot that is never filled: the frame is a source error
            } else {
              (void)test::publish_frame(ring, clock.now() - (own() % 100 == 0 ? milliseconds(50) : milliseconds(0)));
            }
          }
        },
        lossless.back()));
  }
  PipelineOptions options;
  options.max_age = milliseconds(30);
  options.slots = 3 + static_cast<int>(random() % 3);
  LaneSpec lane{"host", *device, engine, {}};
  lane.device_depth = 1 + static_cast<int>(random() % 3);
  lane.path.streams = static_cast<StreamStrategy>(random() % 3);
  lane.path.transfer = Transfer::kMapped;

  Tally tally;
  {
    Pipeline pipeline({lane}, plugins, clock, std::move(specs), options, nullptr);
    std::atomic<bool> done{false};
    std::thread reader([&] {
      while (!done) {
        for (std::size_t i = 0; i < cameras; ++i) {
          EXPECT_TRUE(pipeline.ledger().totals(static_cast<CameraIndex>(i)).balanced());
          ++tally.lines;
        }
        std::this_thread::yield();
      }
    });
    pipeline.start();
    const bool early = random() % 2 == 0;
    const base::TimePoint deadline = early ? clock.now() + milliseconds(random() % 200) : base::TimePoint::max();
    (void)pipeline.wait_for_end(deadline);
    pipeline.stop(random() % 2 == 0);
    done = true;
    reader.join();
    for (std::size_t i = 0; i < cameras; ++i) {
      const Totals totals = pipeline.ledger().totals(static_cast<CameraIndex>(i));
      EXPECT_TRUE(totals.balanced());
      EXPECT_EQ(totals.in_flight, 0) << "seed " << seed;
      EXPECT_EQ(totals.captured, totals.delivered + totals.dropped_sum()) << "seed " << seed;
      if (lossless[i]) {
        EXPECT_EQ(totals.dropped[static_cast<std::size_t>(DropReason::kSuperseded)], 0U) << "seed " << seed;
        EXPECT_EQ(totals.dropped[static_cast<std::size_t>(DropReason::kTooOld)], 0U) << "seed " << seed;
      }
    }
    tally.captured = pipeline.ledger().totals().captured;
  }
  return tally;
}

TEST(Ledger, BalancesExactlyOverAMillionFramesWithRandomStallsFailuresAndStops) {
  // The same runs, but fewer of them under a sanitizer, which slows them tenfold.
  constexpr std::uint64_t kFrames = test::kSanitized ? 50'000 : 1'000'000;
  Tally sum;
  for (unsigned seed = 1; sum.captured < kFrames; ++seed) {
    const Tally run = random_run(seed);
    sum.captured += run.captured;
    sum.lines += run.lines;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  RecordProperty("captured", std::to_string(sum.captured));
  RecordProperty("balances_read", std::to_string(sum.lines));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
