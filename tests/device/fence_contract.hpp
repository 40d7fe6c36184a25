// What every device's fences do: the host's, a GPU's, and those of the one that tests put in a GPU's place.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "device/device.hpp"

namespace camd::test {

inline void a_fence_that_was_never_signalled_holds_nobody_up(device::Device& device) {
  const device::Fence fence = device.make_fence();
  EXPECT_TRUE(device.synchronize(fence).ok());
}

inline void a_fence_means_the_work_in_front_of_its_latest_signal(device::Device& device) {
  constexpr std::size_t kBytes = 3 << 20;
  const device::Stream first = device.make_stream("first");
  const device::Stream second = device.make_stream("second");
  device::Fence fence = device.make_fence();
  const device::HostBuffer from = device.allocate_host(device::HostMemory::kPinned, kBytes);
  const device::HostBuffer to = device.allocate_host(device::HostMemory::kPinned, kBytes);
  const device::DeviceBuffer memory = device.allocate_device(kBytes);
  for (int round = 1; round <= 50; ++round) {
    const device::Stream& stream = round % 2 == 0 ? first : second;
    std::memset(from.data(), round, kBytes);
    ASSERT_TRUE(device.copy(memory.data(), from.data(), kBytes, device::CopyKind::kHostToDevice, stream).ok());
    ASSERT_TRUE(device.copy(to.data(), memory.data(), kBytes, device::CopyKind::kDeviceToHost, stream).ok());
    ASSERT_TRUE(device.signal(fence, stream).ok());
    ASSERT_TRUE(device.synchronize(fence).ok());
    ASSERT_TRUE(device.synchronize(fence).ok()) << "and who asks again need not wait";
    ASSERT_EQ(static_cast<int>(to.data()[kBytes - 1]), round);
  }
}

}  // namespace camd::test
