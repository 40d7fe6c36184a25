// A lane: its device's depth, and the loss of its device.
#include "pipeline/core/lane.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/pipeline/counting_device.hpp"
#include "tests/pipeline/rig.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using base::Status;
using test::Gate;

TEST(Lane, SaysOnceThatItsDeviceIsLost) {
  test::Rig rig(base::system_clock(), test::works, false);
  test::declare(rig.plugins, rig.engine);
  Lane lane(*rig.device, rig.engine, rig.plugins, rig.clock, {rig.path, 2, {2}});
  EXPECT_FALSE(lane.complete(lane.frame(0)));
  EXPECT_TRUE(lane.frame(0).status.ok());
  EXPECT_FALSE(lane.lost());
  rig.device->inject_failure({base::ErrorKind::kDeviceLost, "pulled out"});
  EXPECT_TRUE(lane.complete(lane.frame(1)));
  EXPECT_EQ(lane.frame(1).status.message(), "pulled out");
  EXPECT_TRUE(lane.lost());
  EXPECT_FALSE(lane.complete(lane.frame(2)));
  EXPECT_EQ(lane.frame(2).status.kind(), base::ErrorKind::kDeviceLost);
}

TEST(Lane, LetsSourcesDispatchOnlyWhereTheDeviceWorksByItselfAndNothingWaits) {
  for (const bool asynchronous : {false, true}) {
    test::Rig rig(base::system_clock(), test::works, asynchronous);
    test::declare(rig.plugins, rig.engine);
    const auto dispatch = [&](Transfer transfer, bool wait_each) {
      FramePathOptions path;
      path.transfer = transfer;
      path.wait_each = wait_each;
      return Lane(*rig.device, rig.engine, rig.plugins, rig.clock, {path, 1, {2}}).sources_dispatch();
    };
    EXPECT_EQ(dispatch(Transfer::kPinned, false), asynchronous);
    EXPECT_EQ(dispatch(Transfer::kMapped, false), asynchronous);
    EXPECT_FALSE(dispatch(Transfer::kPageable, false));
    EXPECT_FALSE(dispatch(Transfer::kPinned, true));
  }
}

// The first frame does not leave the network before the second one is on the device.
TEST(Lane, HasAsManyFramesOnTheDeviceAsThatAsksFor) {
  const base::Clock& clock = base::system_clock();
  const auto host = device::make_host_device(clock, {});
  test::CountingDevice device(*host);
  device.set_default_depth(2);
  Gate second_enqueued;
  test::FakeEngine engine(device, [&](const infer::PictureView&) -> Status {
    second_enqueued.wait();
    return {};
  });
  int enqueued = 0;
  engine.when_enqueued([&] {
    if (++enqueued == 2) second_enqueued.open();
  });
  PluginHost plugins({}, clock);
  test::declare(plugins, engine);
  FramePathOptions path;
  path.transfer = Transfer::kMapped;
  Pipeline pipeline({{"host", device, engine, path}}, plugins, clock,
                    {test::fake_camera("door", test::publishes(clock, 2), true)}, {}, nullptr);
  pipeline.start();
  EXPECT_EQ(pipeline.wait_for_end(base::TimePoint::max()), EndReason::kSourcesEnded);
  pipeline.stop(true);
  EXPECT_EQ(pipeline.ledger().totals().delivered, 2U);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
