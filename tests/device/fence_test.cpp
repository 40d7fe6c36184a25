// Fences of the devices that need no GPU.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>

#include "device/host_device.hpp"
#include "tests/device/emulated_gpu.hpp"
#include "tests/device/fence_contract.hpp"

namespace camd::device {
namespace CAMD_TEST_FILE {

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;
};

std::unique_ptr<Device> host(bool threads) {
  HostDeviceOptions options;
  options.stream_threads = threads;
  return make_host_device(base::system_clock(), options);
}

class Fences : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Device> device_ = GetParam().make();
};

TEST_P(Fences, ThatWereNeverSignalledHoldNobodyUp) { test::a_fence_that_was_never_signalled_holds_nobody_up(*device_); }

TEST_P(Fences, MeanTheWorkInFrontOfTheirLatestSignal) {
  test::a_fence_means_the_work_in_front_of_its_latest_signal(*device_);
}

INSTANTIATE_TEST_SUITE_P(
    OfDevices, Fences,
    testing::Values(Kind{"Host", [] { return host(false); }}, Kind{"HostWithThreads", [] { return host(true); }},
                    Kind{"EmulatedGpu", [] { return std::make_unique<test::EmulatedGpu>(base::system_clock()); }}),
    [](const auto& tested) { return tested.param.name; });

TEST(Fence, LetsWhoWaitsForItGoWhenItsDeviceIsLost) {
  test::EmulatedGpu gpu(base::system_clock());
  const Stream stream = gpu.make_stream("stream");
  Signal never = gpu.make_signal();
  Fence fence = gpu.make_fence();
  ASSERT_TRUE(gpu.await(never, nullptr, stream).ok());
  ASSERT_TRUE(gpu.signal(fence, stream).ok());
  Status status;
  std::thread waits([&] { status = gpu.synchronize(fence); });
  gpu.lose({base::ErrorKind::kDeviceLost, "gone"});
  waits.join();
  EXPECT_EQ(status.message(), "gone");
}

TEST(Fence, IsNotSignalledInACapture) {
  test::EmulatedGpu gpu(base::system_clock());
  const Stream stream = gpu.make_stream("stream");
  Fence fence = gpu.make_fence();
  ASSERT_TRUE(gpu.begin_capture(stream).ok());
  EXPECT_EQ(gpu.signal(fence, stream).kind(), base::ErrorKind::kInternal);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::device
