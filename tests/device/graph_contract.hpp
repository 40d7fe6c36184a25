// What every device with graphs does: a GPU, and the one that tests put in its place.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "device/device.hpp"

namespace camd::test {

inline constexpr std::size_t kGraphBytes = 3 << 20;

// A capture of two streams, with times inside, launched three times.
inline void run_a_graph_of_two_streams(device::Device& gpu) {
  const device::Stream main = gpu.make_stream("main");
  const device::Stream side = gpu.make_stream("side");
  device::Event fork = gpu.make_event(), join = gpu.make_event();
  device::TimedEvent begin = gpu.make_timed_event(), end = gpu.make_timed_event();
  const device::HostBuffer from = gpu.allocate_host(device::HostMemory::kPinned, kGraphBytes);
  const device::HostBuffer to = gpu.allocate_host(device::HostMemory::kPinned, kGraphBytes);
  const device::DeviceBuffer memory = gpu.allocate_device(kGraphBytes);
  ASSERT_TRUE(gpu.begin_capture(main).ok());
  ASSERT_TRUE(gpu.record(begin, main).ok());
  ASSERT_TRUE(gpu.copy(memory.data(), from.data(), kGraphBytes, device::CopyKind::kHostToDevice, main).ok());
  ASSERT_TRUE(gpu.record(fork, main).ok());
  ASSERT_TRUE(gpu.wait(fork, side).ok());
  ASSERT_TRUE(gpu.copy(to.data(), memory.data(), kGraphBytes, device::CopyKind::kDeviceToHost, side).ok());
  ASSERT_TRUE(gpu.record(join, side).ok());
  ASSERT_TRUE(gpu.wait(join, main).ok());
  ASSERT_TRUE(gpu.record(end, main).ok());
  device::GraphExec graph;
  ASSERT_TRUE(gpu.end_capture(main, graph).ok());
  ASSERT_TRUE(graph);
  device::Event done = gpu.make_event();
  for (int round = 0; round < 3; ++round) {
    std::memset(from.data(), round + 1, kGraphBytes);
    ASSERT_TRUE(gpu.launch(graph, main).ok());
    ASSERT_TRUE(gpu.record(done, main).ok());
    ASSERT_TRUE(gpu.synchronize(done).ok());
    EXPECT_EQ(static_cast<int>(to.data()[kGraphBytes - 1]), round + 1);
    EXPECT_GT(gpu.elapsed(begin, end), base::Duration::zero());
  }
}

// The upload comes by another stream than the graph's, which is launched while that is under way. The signal carries
// the round's number.
inline void run_a_graph_that_awaits_its_upload(device::Device& gpu) {
  const device::Stream main = gpu.make_stream("main");
  const device::Stream upload = gpu.make_stream("upload");
  device::Signal there = gpu.make_signal();
  device::Event done = gpu.make_event();
  const device::HostBuffer from = gpu.allocate_host(device::HostMemory::kPinned, kGraphBytes);
  const device::HostBuffer to = gpu.allocate_host(device::HostMemory::kPinned, kGraphBytes);
  const device::DeviceBuffer memory = gpu.allocate_device(kGraphBytes);
  const device::DeviceBuffer value = gpu.allocate_device(sizeof(std::uint64_t));
  const device::HostBuffer got = gpu.allocate_host(device::HostMemory::kPinned, sizeof(std::uint64_t));
  ASSERT_TRUE(gpu.begin_capture(main).ok());
  ASSERT_TRUE(gpu.await(there, reinterpret_cast<std::uint64_t*>(value.data()), main).ok());
  ASSERT_TRUE(gpu.copy(got.data(), value.data(), sizeof(std::uint64_t), device::CopyKind::kDeviceToHost, main).ok());
  ASSERT_TRUE(gpu.copy(to.data(), memory.data(), kGraphBytes, device::CopyKind::kDeviceToHost, main).ok());
  device::GraphExec graph;
  ASSERT_TRUE(gpu.end_capture(main, graph).ok());
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t number = (std::uint64_t{1} << 40U) + static_cast<unsigned>(round);
    std::memset(from.data(), round + 1, kGraphBytes);
    ASSERT_TRUE(gpu.copy(memory.data(), from.data(), kGraphBytes, device::CopyKind::kHostToDevice, upload).ok());
    ASSERT_TRUE(gpu.raise(there, number, upload).ok());
    ASSERT_TRUE(gpu.launch(graph, main).ok());
    ASSERT_TRUE(gpu.record(done, main).ok());
    ASSERT_TRUE(gpu.synchronize(done).ok());
    ASSERT_EQ(static_cast<int>(to.data()[0]), round + 1);
    ASSERT_EQ(static_cast<int>(to.data()[kGraphBytes - 1]), round + 1);
    std::uint64_t carried = 0;
    std::memcpy(&carried, got.data(), sizeof(carried));
    ASSERT_EQ(carried, number);
  }
}

}  // namespace camd::test
