#include "pipeline/core/frame_path.hpp"

#include <gtest/gtest.h>

#include "tests/pipeline/counting_device.hpp"
#include "tests/pipeline/support.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

TEST(FramePath, EnqueuesAFrameWithoutWaitingForTheDeviceOrMakingAnything) {
  const base::Clock& clock = base::system_clock();
  device::HostDeviceOptions threads;
  threads.stream_threads = true;
  test::Gate leave;
  const auto host = device::make_host_device(clock, threads);
  test::CountingDevice device(*host);
  test::FakeEngine engine(device, [&](const infer::PictureView&) -> base::Status {
    leave.wait();  // enqueue() would never return if it waited for the network
    return {};
  });
  PluginHost plugins({}, clock);
  test::FakePlugin plugin(test::takes_it);
  plugin.add_to(plugins);
  test::declare(plugins, engine);
  test::NoObserver observer;
  capture::FrameRing ring(device, observer, {});
  FramePath path(device, engine, plugins, {});
  const std::unique_ptr<InFlight> in_flight = path.make_in_flight();
  ASSERT_TRUE(test::publish_frame(ring, clock.now()));
  in_flight->lease = std::move(*ring.take());
  in_flight->frame = in_flight->lease.frame();
  device.count(true);
  EXPECT_TRUE(path.enqueue(*in_flight).ok());
  device.count(false);
  EXPECT_GT(device.operations(), 0);
  EXPECT_EQ(device.waits(), 0);
  EXPECT_EQ(device.made(), 0);
  leave.open();
  EXPECT_TRUE(device.synchronize(in_flight->downloaded).ok());
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
